"""The whole journey on a tiny model and a file of one's own: find, inspect, verify, load, through the command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch

import tombola
from tombola import api
from tombola.engine.store import Store
from tombola.finding.methods import METHODS
from tombola.masks.packing import load_mask
from tombola.models.build import pretrained_state
from tombola.models.resolve import resolve
from tombola.tasks.task import DataOptions


def command(*arguments: object, store: object, **more: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TOMBOLA_STORE": str(store), "OMP_NUM_THREADS": "1", "COLUMNS": "140"}
    return subprocess.run(
        [sys.executable, "-m", "tombola", *(str(argument) for argument in arguments)],
        capture_output=True,
        text=True,
        env=environment,
        **more,  # type: ignore[arg-type]
    )


def find_arguments(tiny_bert, sentences, out, *more):
    return (
        *("find", tiny_bert, "--data", sentences, "--text", "text", "--label", "label", "--out", out),
        *("--epochs", 2, "--batch-size", 16, "--lr", "1e-2", "--max-length", 16, "--threads", 1, *more),
    )


@pytest.fixture(scope="session")
def found(tiny_bert, sentences, tmp_path_factory):
    """One IMP ticket at 30 % with two seeds, found by the command."""
    place = tmp_path_factory.mktemp("found")
    arguments = find_arguments(tiny_bert, sentences, place / "ticket", "--sparsity", "30%", "--seeds", "2")
    done = command(*arguments, store=place / "store")
    assert done.returncode == 0, done.stderr
    return place, done, arguments


def options(sentences):
    return DataOptions(data=sentences, text="text", label="label")


def planned(tiny_bert, sentences, **settings):
    recipe = api.make_recipe(None, epochs=2, batch_size=16, learning_rate=1e-2, max_length=16)
    return api.plan_find(
        str(tiny_bert),
        data=options(sentences),
        recipe=recipe,
        numerics=api.make_numerics(threads=1, device="cpu"),
        **{"sparsities": (0.3,), "seeds": (0, 1), **settings},
    )


def test_find_leaves_a_ticket_and_says_how_to_go_on(found):
    place, done, _ = found
    assert {path.name for path in (place / "ticket").iterdir()} >= {
        "ticket.json",
        "mask.safetensors",
        "README.md",
    }
    assert "tombola verify" in done.stdout
    ticket = tombola.Ticket.from_pretrained(place / "ticket")
    assert ticket.mask.zeros == round(0.3 * ticket.mask.size)
    assert ticket.results["seeds"] == [0, 1]
    assert len(ticket.results["scores"]["ticket"]["accuracy"]) == 2


def test_a_second_find_repeats_nothing(found):
    place, _, arguments = found
    again = command(*arguments, "--force", "--json", store=place / "store")
    assert again.returncode == 0, again.stderr
    assert "0 steps to do" in again.stderr
    (ticket,) = json.loads(again.stdout)
    assert ticket["identity"] == tombola.Ticket.from_pretrained(place / "ticket").identity


def test_find_refuses_to_overwrite_before_it_works(found):
    place, _, arguments = found
    refused = command(*arguments, store=place / "other")
    assert refused.returncode == 2
    assert "--force" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_dry_run_tells_steps_disk_and_time_and_runs_nothing(found, tiny_bert, sentences, tmp_path):
    arguments = find_arguments(
        tiny_bert, sentences, tmp_path / "t", "--sparsity", "0.3", "--dry-run", "--json"
    )
    told = command(*arguments, store=tmp_path / "empty")
    assert told.returncode == 0, told.stderr
    work = json.loads(told.stdout)
    # Rounds of 10 %: masks after the dense training, after 10 % and after 20 %; then the ticket is retrained.
    assert (work["steps"], work["trainings"], work["done"]) == (7, 4, 0)
    assert work["seconds"] > 0
    assert work["disk_bytes"] > 0
    assert list(Store(tmp_path / "empty")) == []


def test_inspect_shows_every_matrix(found):
    place, _, _ = found
    shown = command("inspect", place / "ticket", store=place / "store")
    assert shown.returncode == 0, shown.stderr
    assert "encoder.layer.0.attention.self.query.weight" in shown.stdout
    told = json.loads(command("inspect", place / "ticket", "--json", store=place / "store").stdout)
    assert told["sparsity"] == pytest.approx(0.3, abs=1e-3)


def test_verify_answers_by_its_exit_status(found, tiny_bert, sentences):
    place, _, _ = found
    arguments = (
        *(
            "verify",
            place / "ticket",
            "--model",
            tiny_bert,
            "--data",
            sentences,
            "--text",
            "text",
            "--label",
            "label",
        ),
        *("--seeds", 2, "--threads", 1, "--against", "full,random,reinit,shuffle", "--json"),
    )
    lenient = command(*arguments, "--criterion", "within_points:100", store=place / "store")
    assert lenient.returncode == 0, lenient.stderr
    told = json.loads(lenient.stdout)
    assert [row["name"] for row in told["rows"]] == ["full", "ticket", "random", "reinit", "shuffle"]
    assert told["sparsity"]["measured"] == told["sparsity"]["claimed"]
    # Everything is in the store now: another criterion trains nothing.
    impossible = command(*arguments[:-1], "--criterion", "within_ratio:1.0", store=place / "store")
    assert impossible.returncode in (0, 1), impossible.stderr
    assert "0 steps to do" in impossible.stderr
    assert ("YES" in impossible.stdout) == (impossible.returncode == 0)


def test_verify_without_the_base_model_says_what_is_missing(found):
    place, _, _ = found
    refused = command("verify", place / "ticket", store=place / "store")
    assert refused.returncode == 2
    assert "--data" in refused.stderr or "--model" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_verify_refuses_another_base_model(found, tmp_path, sentences):
    from tests.tiny import tiny_bert_folder

    place, _, _ = found
    other = tiny_bert_folder(tmp_path / "other", seed=123)
    refused = command(
        *(
            "verify",
            place / "ticket",
            "--model",
            other,
            "--data",
            sentences,
            "--text",
            "text",
            "--label",
            "label",
        ),
        store=place / "store",
    )
    assert refused.returncode == 2
    assert "another model" in refused.stderr


def test_the_ticket_loads_as_theta0_times_mask(found, tiny_bert):
    """Trap 1: bitwise θ0 × mask, for every prunable matrix; everything else is θ0."""
    place, _, _ = found
    ticket = tombola.Ticket.from_pretrained(place / "ticket")
    model = ticket.model(num_labels=3, base=str(tiny_bert))
    theta0 = pretrained_state(resolve(str(tiny_bert)))
    weights = dict(model.base_model.named_parameters())
    for name, tensor in theta0.items():
        if name in weights:
            expected = torch.where(ticket.mask[name], tensor, 0.0) if name in ticket.mask.names else tensor
            assert torch.equal(weights[name], expected), name


def test_masks_of_a_run_are_nested_with_exact_counts(tiny_bert, sentences, tmp_path):
    search = planned(tiny_bert, sentences, sparsities=(0.1, 0.2, 0.3), seeds=(0,))
    api.run_search(search, tmp_path)
    store = Store(tmp_path)
    masks = [load_mask(store.path(search.candidates[share][0].mask)) for share in (0.1, 0.2, 0.3)]
    assert [mask.zeros for mask in masks] == [round(share * masks[0].size) for share in (0.1, 0.2, 0.3)]
    assert masks[2].is_subset_of(masks[1])
    assert masks[1].is_subset_of(masks[0])


def test_imp_masks_equal_torch_global_unstructured(tiny_bert, sentences, tmp_path):
    """The paper's own tool on the same trained weights; ties aside (there are none here)."""
    from torch import nn
    from torch.nn.utils import prune

    search = planned(tiny_bert, sentences, seeds=(0,), schedule="one_shot")
    api.run_search(search, tmp_path)
    store = Store(tmp_path)
    from tombola.engine.inline import run
    from tombola.files import read_tensors
    from tombola.plan.graph import Graph

    dense = search.dense[0].out("weights.safetensors")
    run(Graph((), (dense,)), store)
    weights = read_tensors(store.path(dense))
    ours = load_mask(store.path(search.candidates[0.3][0].mask))
    modules = {}
    for name in ours.names:
        modules[name] = nn.Linear(1, 1, bias=False)
        modules[name].weight = nn.Parameter(weights[name].clone())
    prune.global_unstructured(
        [(module, "weight") for module in modules.values()], prune.L1Unstructured, amount=ours.zeros
    )
    for name, module in modules.items():
        assert torch.equal(ours[name], module.weight_mask.bool()), name


def test_a_search_learns_something(found):
    """Above chance by far: the journey really trains (classes are balanced)."""
    place, _, _ = found
    ticket = tombola.Ticket.from_pretrained(place / "ticket")
    assert min(ticket.results["scores"]["full"]["accuracy"]) > 75


@pytest.mark.parametrize("rewind", [0.5, "standard"])
def test_other_rewinding_points_give_tickets_with_their_own_start(tiny_bert, sentences, tmp_path, rewind):
    search = planned(tiny_bert, sentences, sparsities=(0.2,), seeds=(0,), rewind=rewind)
    (ticket,) = api.run_search(search, tmp_path / "store")
    assert ticket.start_state is not None
    theta0 = pretrained_state(resolve(str(tiny_bert)))
    name = ticket.mask.names[0]
    assert not torch.equal(ticket.start_state[name], theta0[name])
    ticket.save_pretrained(tmp_path / "ticket")
    again = tombola.Ticket.from_pretrained(tmp_path / "ticket")
    assert again == ticket
    model = again.model(num_labels=2, base=str(tiny_bert))
    weights = dict(model.base_model.named_parameters())[name]
    assert torch.equal(weights, torch.where(ticket.mask[name], ticket.start_state[name], 0.0))
    verified = tombola.verify(
        tmp_path / "ticket",
        seeds=2,
        against=("full",),
        store=tmp_path / "store",
        model=str(tiny_bert),
        data=options(sentences),
        numerics=api.make_numerics(threads=1, device="cpu"),
    )
    assert verified.measured == verified.claimed


def test_with_model_leaves_a_trained_model_that_loads_in_one_line(tiny_bert, sentences, tmp_path):
    arguments = find_arguments(
        tiny_bert, sentences, tmp_path / "t", "--sparsity", "0.3", "--schedule", "one_shot", "--with-model"
    )
    done = command(*arguments, store=tmp_path / "store")
    assert done.returncode == 0, done.stderr
    model = tombola.load(tmp_path / "t")
    ticket = tombola.Ticket.from_pretrained(tmp_path / "t")
    weights = dict(model.base_model.named_parameters())
    for name in ticket.mask.names:
        assert not bool(weights[name][~ticket.mask[name]].any())


@pytest.mark.parametrize("method", [name for name, method in METHODS.items() if not method.levels])
def test_every_method_finds_a_ticket(tiny_bert, sentences, tmp_path, method):
    ticket = tombola.find(
        str(tiny_bert),
        method=method,
        sparsity=0.5,
        store=tmp_path,
        data=options(sentences),
        schedule="one_shot" if method == "imp" else "linear",
        recipe=api.make_recipe(None, epochs=1, batch_size=32, learning_rate=1e-2, max_length=16),
        numerics=api.make_numerics(threads=1, device="cpu"),
    )
    assert ticket.mask.zeros == round(0.5 * ticket.mask.size)
    assert ticket.method == method


def test_kill_9_anywhere_and_the_same_bytes_come_out(tiny_bert, sentences, tmp_path, found):
    """The command is killed three times at different moments; what it finds in the end is what it always finds."""
    place, _, _ = found
    arguments = find_arguments(tiny_bert, sentences, tmp_path / "ticket", "--sparsity", "30%", "--seeds", "2")
    environment = {**os.environ, "TOMBOLA_STORE": str(tmp_path / "store"), "OMP_NUM_THREADS": "1"}
    for number in range(3):
        process = subprocess.Popen(
            [sys.executable, "-m", "tombola", *(str(argument) for argument in arguments)],
            env=environment,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith(f"[{2 * number + 1}/"):
                break
        time.sleep(0.05 * number)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stderr.close()
    done = command(*arguments, store=tmp_path / "store")
    assert done.returncode == 0, done.stderr
    mine, undisturbed = Store(tmp_path / "store"), Store(place / "store")
    runs = set(mine)
    assert runs
    for identity in runs:
        one, other = mine.run(identity), undisturbed.run(identity)
        assert one is not None
        assert other is not None
        assert one.outputs == other.outputs, "every hash of every output"
    assert (tmp_path / "ticket" / "mask.safetensors").read_bytes() == (
        place / "ticket" / "mask.safetensors"
    ).read_bytes()


def test_the_pooler_can_be_left_out_of_the_mask(tiny_bert, sentences, tmp_path):
    kept = planned(tiny_bert, sentences, seeds=(0,), method="magnitude", keep_pooler=True)
    whole = planned(tiny_bert, sentences, seeds=(0,), method="magnitude")
    (ticket,) = api.run_search(kept, tmp_path / "store")
    assert "pooler.dense.weight" in whole.problem.model.shapes
    assert "pooler.dense.weight" not in ticket.mask.names
    assert ticket.mask.zeros == round(0.3 * kept.problem.model.prunable)
    assert kept.dense == whole.dense, "what a mask may cover does not change the full model"
    ticket.save_pretrained(tmp_path / "ticket")
    verified = tombola.verify(
        tmp_path / "ticket",
        seeds=2,
        against=("full", "random"),
        store=tmp_path / "store",
        model=str(tiny_bert),
        data=options(sentences),
        numerics=api.make_numerics(threads=1, device="cpu"),
    )
    assert verified.claimed == verified.measured
    assert verified.row("random").measured == verified.claimed


def test_a_mask_that_empties_a_matrix_is_said(tiny_bert, sentences, tmp_path):
    arguments = find_arguments(
        tiny_bert, sentences, tmp_path / "t", "--sparsity", "99.9%", "--method", "magnitude", "--epochs", "1"
    )
    done = command(*arguments, store=tmp_path / "store")
    assert done.returncode == 0, done.stderr
    assert "the mask removes" in done.stderr
    assert "--keep-pooler" in done.stderr


def test_ctrl_c_leaves_a_state_to_go_on_from_and_says_how(tiny_bert, sentences, tmp_path, found):
    """Stopped between two steps with a checkpoint; the same command goes on to the same bytes."""
    place, _, _ = found
    arguments = find_arguments(tiny_bert, sentences, tmp_path / "ticket", "--sparsity", "30%", "--seeds", "2")
    slow = "import sys, time, tombola.training.loop as loop\n"
    slow += "former = loop.collate\n"
    slow += "def collate(*a, **k):\n    time.sleep(0.1)\n    return former(*a, **k)\n"
    slow += "loop.collate = collate\nfrom tombola.cli.app import main\nmain()\n"
    process = subprocess.Popen(
        [sys.executable, "-c", slow, *(str(argument) for argument in arguments)],
        env={**os.environ, "TOMBOLA_STORE": str(tmp_path / "store"), "OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("[1/"):
            break
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130, told
    assert "stopped" in told
    assert "type the same command again" in told
    assert "Traceback" not in told
    assert list((tmp_path / "store" / "running").glob("*/checkpoints/*")), "a checkpoint to go on from"
    done = command(*arguments, store=tmp_path / "store")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "ticket" / "mask.safetensors").read_bytes() == (
        place / "ticket" / "mask.safetensors"
    ).read_bytes()


def wrong(*arguments: object, store: object, status: int = 2) -> str:
    """A mistake ends with what, where and what to do, never with a traceback or the status of an answer."""
    done = command(*arguments, store=store)
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--sparsity", "70"), ("0.7", "70%")),
        (("--sparsity", "nan"), ("is no share",)),
        (("--sparsity", "100%"), ("everything or nothing",)),
        (("--method", "impp"), ("did you mean 'imp'",)),
        (("--method", "random", "--rewind", "5%"), ("does not read rewind",)),
        (("--rewind", "0.001%"), ("nothing to rewind to",)),
        (("--epochs", "0"), ("epochs", "at least 1")),
        (("--precision", "fp16"), ("precision",)),
        (("--device", "tpu"), ("device",)),
        (("--max-length", "100000"), ("--max-length", "at most")),
        (("--seeds", "0"), ("--seeds",)),
        (("--seeds", "1,1"), ("twice",)),
        (("--label", "nosuch"), ("nosuch",)),
    ],
    ids=lambda value: " ".join(map(str, value)),
)
def test_mistakes_on_the_command_line_say_what_where_and_what_to_do(
    tiny_bert, sentences, tmp_path, more, words
):
    arguments = find_arguments(tiny_bert, sentences, tmp_path / "t", *more)
    told = wrong(*arguments, store=tmp_path / "store")
    for word in words:
        assert word in told, told
    assert not (tmp_path / "t").exists()


def test_more_mistakes(tiny_bert, sentences, tmp_path, found):
    place, _, _ = found
    own = ("--data", sentences, "--text", "text", "--label", "label")
    assert "no such folder" in wrong("find", "./nowhere", *own, store=tmp_path)
    assert "did you mean 'minilm-l6'" in wrong("find", "minilm-l7", *own, store=tmp_path)
    assert "to do" in wrong("find", tiny_bert, "--task", "colla", store=tmp_path)
    assert "nowhere" in wrong("verify", "./nowhere", store=tmp_path)
    assert "did you mean 'reinit'" in wrong(
        *("verify", place / "ticket", "--model", tiny_bert, "--data", sentences, "--text", "text"),
        *("--label", "label", "--against", "reinitt"),
        store=tmp_path,
    )
    assert "standard deviation" in wrong(
        *("verify", place / "ticket", "--model", tiny_bert, "--data", sentences, "--text", "text"),
        *("--label", "label", "--seed", "1"),
        store=tmp_path,
    )
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "thesis.txt").write_text("precious")
    told = wrong(
        *find_arguments(tiny_bert, sentences, tmp_path / "notes", "--force"), store=tmp_path / "store"
    )
    assert "more than a ticket" in told
    assert (tmp_path / "notes" / "thesis.txt").read_text() == "precious"
    assert list(Store(tmp_path / "store")) == [], "said before anything is trained"


def test_the_printed_verify_command_works(found):
    """What `find` prints as the next command has everything a verification must be told."""
    import shlex

    place, done, _ = found
    (line,) = [line for line in done.stdout.splitlines() if "tombola verify" in line]
    arguments = shlex.split(line.split("check it:")[1])[1:]
    checked = command(*arguments, "--seeds", "2", "--criterion", "within_points:100", store=place / "store")
    assert checked.returncode == 0, checked.stderr
    assert "YES" in checked.stdout


def test_another_configuration_of_the_same_weights_is_another_model(found, tiny_bert, sentences, tmp_path):
    """Heads or dropout are no weights, but they decide what the weights compute: identities hold them."""
    import shutil

    shutil.copytree(tiny_bert, tmp_path / "other")
    path = tmp_path / "other" / "config.json"
    config = json.loads(path.read_text()) | {"hidden_dropout_prob": 0.3}
    path.write_text(json.dumps(config))
    one, other = planned(tiny_bert, sentences), planned(tmp_path / "other", sentences)
    assert one.problem.model.fingerprint == other.problem.model.fingerprint
    assert one.dense[0] != other.dense[0]
    place, _, _ = found
    told = wrong(
        *("verify", place / "ticket", "--model", tmp_path / "other", "--data", sentences),
        *("--text", "text", "--label", "label"),
        store=tmp_path,
    )
    assert "another configuration" in told


def test_a_renamed_file_is_the_same_data(tiny_bert, sentences, tmp_path):
    renamed = tmp_path / "renamed.csv"
    renamed.write_bytes(sentences.read_bytes())
    assert planned(tiny_bert, sentences).dense[0] == planned(tiny_bert, renamed).dense[0]


def test_a_changed_file_is_read_again_in_one_process(tiny_bert, sentences, tmp_path):
    path = tmp_path / "mine.csv"
    path.write_bytes(sentences.read_bytes())
    before = planned(tiny_bert, path)
    path.write_text(sentences.read_text() + "the dog,good\n")
    assert planned(tiny_bert, path).problem.task.fingerprint != before.problem.task.fingerprint
