"""After ``import tombola.auto`` the libraries around transformers take smaller models for what they are: models."""

from __future__ import annotations

import io
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tests.tickets import name_again, structured_ticket
from tests.tiny import random_batch, random_model, write_tokenizer

import tombola
import tombola.auto
from tombola.errors import CorruptArtifact, MaskMismatch, UsageError
from tombola.masks.structure_mask import StructureMask
from tombola.models.anatomy import anatomy_of
from tombola.models.deployed import smaller

YES, NO = True, False
#: Two heads and no FFN in the first layer, no head at all in the second.
CUT = StructureMask(((YES, NO, NO, YES), (NO, NO, NO, NO)), (NO, YES))


def small_bert(class_name: str = "BertForSequenceClassification", **config: Any) -> Any:
    return smaller(random_model(class_name, "bert", attention="sdpa", **config), CUT)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A smaller classifier and its tokenizer, as whoever deploys it has them."""
    place = tmp_path_factory.mktemp("deployed") / "model"
    small_bert(id2label={0: "bad", 1: "good"}, label2id={"bad": 0, "good": 1}).save_pretrained(place)
    write_tokenizer(place)
    return place


def logits(model: torch.nn.Module, **options: Any) -> torch.Tensor:
    with torch.no_grad():
        return model(**random_batch("bert"), **options).logits


def test_importing_is_all_there_is_to_do(folder: Path):
    code = (
        "import sys, tombola.auto\n"
        "from transformers import AutoModel, AutoTokenizer\n"
        "print(type(AutoModel.from_pretrained(sys.argv[1])).__name__)\n"
        "print(AutoTokenizer.from_pretrained(sys.argv[1]).is_fast)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, str(folder)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["TombolaBertModel", "True"]


def test_registering_again_changes_nothing():
    before = transformers.AutoModel._model_mapping._extra_content.copy()
    tombola.auto.register()
    assert transformers.AutoModel._model_mapping._extra_content == before


def test_pipeline(folder: Path):
    classify = transformers.pipeline("text-classification", str(folder), device="cpu")
    found = classify(["a good film", "a bad film and a boring story"])
    assert {row["label"] for row in found} <= {"bad", "good"}
    tokens = transformers.AutoTokenizer.from_pretrained(folder)(["a good film"], return_tensors="pt")
    with torch.no_grad():
        scores = tombola.load(folder)(**tokens).logits.softmax(-1)[0]
    assert found[0]["score"] == pytest.approx(float(scores.max()), abs=1e-5)


def test_pipelines_of_other_heads(tmp_path: Path):
    small_bert("BertForTokenClassification", num_labels=3).save_pretrained(tmp_path / "tags")
    small_bert("BertForMaskedLM").save_pretrained(tmp_path / "mlm")
    small_bert("BertForQuestionAnswering").save_pretrained(tmp_path / "qa")
    for name in ("tags", "mlm", "qa"):
        write_tokenizer(tmp_path / name)
    assert isinstance(
        transformers.pipeline("token-classification", str(tmp_path / "tags"))("a good film"), list
    )
    assert len(transformers.pipeline("fill-mask", str(tmp_path / "mlm"))("a [MASK] film")) == 5
    answerer = transformers.AutoModelForQuestionAnswering.from_pretrained(tmp_path / "qa")
    assert type(answerer).__name__ == "TombolaBertForQuestionAnswering"


def test_gpt2_goes_on_writing(tmp_path: Path):
    model = random_model("GPT2LMHeadModel", "gpt2", eos_token_id=0, bos_token_id=0)
    small = smaller(model, CUT)
    small.save_pretrained(tmp_path)
    loaded = tombola.load(tmp_path)
    start = random_batch("gpt2")["input_ids"][:1, :4]
    written = loaded.generate(start, max_new_tokens=5, do_sample=False, pad_token_id=0)
    slowly = loaded.generate(start, max_new_tokens=5, do_sample=False, pad_token_id=0, use_cache=False)
    assert written.tolist() == slowly.tolist()


def examples(count: int = 24) -> list[dict[str, torch.Tensor]]:
    draw = torch.Generator().manual_seed(1)
    return [
        {"input_ids": torch.randint(5, 200, (8,), generator=draw), "labels": torch.tensor(number % 2)}
        for number in range(count)
    ]


def trainer_of(model: Any, folder: Path, **settings: Any) -> transformers.Trainer:
    arguments = transformers.TrainingArguments(
        str(folder),
        max_steps=6,
        per_device_train_batch_size=4,
        save_steps=3,
        learning_rate=1e-2,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        dataloader_pin_memory=False,
        seed=1,
        **settings,
    )
    return transformers.Trainer(model, arguments, train_dataset=examples())  # type: ignore[arg-type]


def test_trainer_trains_saves_and_resumes(folder: Path, tmp_path: Path):
    straight = trainer_of(tombola.load(folder), tmp_path / "straight")
    straight.train()
    straight.save_model(str(tmp_path / "saved"))
    moved = straight.model.state_dict()
    assert not torch.equal(moved["classifier.weight"], tombola.load(folder).state_dict()["classifier.weight"])

    again = trainer_of(tombola.load(folder), tmp_path / "again")
    again.train(resume_from_checkpoint=str(tmp_path / "straight" / "checkpoint-3"))
    assert again.state.global_step == 6
    for name, weight in again.model.state_dict().items():
        assert torch.allclose(weight, moved[name], atol=1e-6), name

    saved = tombola.load(tmp_path / "saved")
    assert type(saved).__name__ == "TombolaBertForSequenceClassification"
    assert all(torch.equal(weight, moved[name]) for name, weight in saved.state_dict().items())
    checkpoint = transformers.AutoModelForSequenceClassification.from_pretrained(
        tmp_path / "straight" / "checkpoint-6"
    )
    assert type(checkpoint) is type(saved)


@pytest.mark.parametrize(
    "settings", [{"bf16": True}, {"activation_checkpointing": True}], ids=lambda value: str(value)
)
def test_trainer_in_bf16_and_with_checkpointing(settings: dict[str, Any], folder: Path, tmp_path: Path):
    done = trainer_of(tombola.load(folder), tmp_path, **settings).train()
    assert done.training_loss < 10


def test_gradient_checkpointing_gives_the_same_gradients(folder: Path):
    def gradients(*, checkpointing: bool) -> dict[str, torch.Tensor]:
        model = transformers.AutoModelForSequenceClassification.from_pretrained(
            folder, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, classifier_dropout=0.0
        ).train()
        if checkpointing:
            model.activation_checkpointing_enable({"use_reentrant": False})
            assert model.is_activation_checkpointing
        model(**random_batch("bert", labels=True)).loss.backward()
        return {name: weight.grad for name, weight in model.named_parameters()}

    plain, again = gradients(checkpointing=False), gradients(checkpointing=True)
    assert plain.keys() == again.keys()
    for name, gradient in plain.items():
        assert gradient is not None, name
        assert torch.allclose(gradient, again[name], atol=1e-6), name


def test_both_attention_implementations_and_bf16(folder: Path):
    load = transformers.AutoModelForSequenceClassification.from_pretrained
    expected = logits(tombola.load(folder))
    eager = load(folder, attn_implementation="eager")
    assert eager.config._attn_implementation == "eager"
    assert load(folder).config._attn_implementation == "sdpa"
    assert torch.allclose(logits(eager), expected, atol=1e-5)
    half = load(folder, dtype=torch.bfloat16)
    assert half.dtype == torch.bfloat16
    assert torch.allclose(logits(half).float(), expected, atol=0.1)
    assert half.to(torch.float32).dtype == torch.float32


def test_hidden_states_and_attentions_come_out(folder: Path):
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        folder, attn_implementation="eager"
    )
    with torch.no_grad():
        told = model(**random_batch("bert"), output_hidden_states=True, output_attentions=True)
    assert [tuple(states.shape) for states in told.hidden_states] == [(3, 12, 16)] * 3
    assert [tuple(weights.shape) for weights in told.attentions] == [
        (3, 2, 12, 12)
    ]  # of the layer that has heads


def test_accelerate_prepares_it(folder: Path):
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    model = tombola.load(folder).train()
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-3))
    loss = model(**random_batch("bert", labels=True)).loss
    accelerator.backward(loss)
    optimizer.step()
    assert torch.isfinite(loss)
    assert tombola.models.deployed.is_smaller(accelerator.unwrap_model(model))


@pytest.mark.parametrize("device_map", [None, "cpu", {"": "cpu"}])
def test_device_maps(device_map: Any, folder: Path):
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder, device_map=device_map)
    assert torch.allclose(logits(model), logits(tombola.load(folder)), atol=1e-6)


def test_an_exporter_can_trace_it(folder: Path):
    """What ONNX exporters do: record the operations for free sizes of batch and length."""
    model, batch = tombola.load(folder), random_batch("bert")
    sizes = {0: torch.export.Dim("batch", min=2, max=64), 1: torch.export.Dim("length", min=2, max=64)}
    recorded = torch.export.export(
        model, (), kwargs=batch, dynamic_shapes=dict.fromkeys(batch, sizes)
    ).module()
    shorter = {name: value[:2, :5] for name, value in batch.items()}
    with torch.no_grad():
        assert torch.allclose(recorded(**batch).logits, model(**batch).logits, atol=1e-6)
        assert torch.allclose(recorded(**shorter).logits, model(**shorter).logits, atol=1e-6)


def test_weights_stay_what_optimizers_and_state_files_expect(folder: Path):
    model = tombola.load(folder)
    buffer = io.BytesIO()
    torch.save(model.state_dict(), buffer)
    other = tombola.load(folder)
    other.load_state_dict(torch.load(io.BytesIO(buffer.getvalue()), weights_only=True), strict=True)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    model(**random_batch("bert", labels=True)).loss.backward()
    optimizer.step()


def test_sentence_transformers(tmp_path: Path):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    small_bert("BertModel").save_pretrained(tmp_path)
    write_tokenizer(tmp_path)
    embeddings = sentence_transformers.SentenceTransformer(str(tmp_path), device="cpu").encode(
        ["a good film"]
    )
    assert embeddings.shape == (1, 16)


# --- tombola.load -----------------------------------------------------------


def test_load_says_what_a_folder_is_that_it_cannot_load(tiny_bert: Path, tmp_path: Path):
    with pytest.raises(UsageError, match="no model that tombola made smaller"):
        tombola.load(tiny_bert)
    with pytest.raises(CorruptArtifact, match="no ticket"):
        tombola.load(tmp_path)
    with pytest.raises(UsageError, match="no such folder"):
        tombola.load(tmp_path / "nowhere")


def test_load_fetches_a_smaller_model_from_a_hub(folder: Path, monkeypatch: pytest.MonkeyPatch):
    import fnmatch

    import huggingface_hub

    asked: list[str] = []

    def fetch(repo_id: str, *, revision: str | None, allow_patterns: list[str]) -> str:
        asked.extend([repo_id, *allow_patterns])
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    assert type(tombola.load("me/small-bert")).__name__ == "TombolaBertForSequenceClassification"
    assert asked[0] == "me/small-bert"
    for name in (
        "config.json",
        "model.safetensors",
        "model-00001-of-00002.safetensors",
        "model.safetensors.index.json",
    ):
        assert any(fnmatch.fnmatch(name, pattern) for pattern in asked[1:]), name
    assert not any(fnmatch.fnmatch("pytorch_model.bin", pattern) for pattern in asked[1:])


@pytest.mark.parametrize("class_name", ["BertForSequenceClassification", "BertForMaskedLM"])
def test_load_gives_the_model_in_a_tickets_folder(class_name: str, tmp_path: Path):
    full = random_model(class_name, "bert")
    model = {**structured_ticket().model, "sizes": asdict(anatomy_of(full).structure_sizes)}
    ticket, small = structured_ticket(mask=CUT, model=model), smaller(full, CUT)
    place = ticket.save_pretrained(tmp_path / "ticket", model=small)
    loaded = tombola.load(place)
    assert type(loaded) is type(small)
    assert all(torch.equal(weight, small.state_dict()[name]) for name, weight in loaded.state_dict().items())

    other = StructureMask(((NO, YES, YES, NO), (NO,) * 4), (NO, YES))
    smaller(full, other).save_pretrained(place / "model")
    for name in ("config.json", "model.safetensors"):
        name_again(place, f"model/{name}")
    with pytest.raises(MaskMismatch, match="other parts than the ticket keeps"):
        tombola.load(place)
