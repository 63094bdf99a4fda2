"""The README is run: its Python on a tiny model, its commands against the options that really exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer

from tombola import api
from tombola.cli.app import app
from tombola.tasks.task import DataOptions

README = (Path(__file__).parent.parent / "README.md").read_text()
DOCS = sorted((Path(__file__).parent.parent / "docs").rglob("*.md"))


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.S)


def test_find_verify_load_in_python(tiny_bert, sentences, tmp_path, monkeypatch, capsys):
    """The block as printed, with the real model and task replaced by tiny ones."""
    (block,) = blocks("python")
    tiny = {
        '"minilm-l6", task="rotten-tomatoes"': "MODEL, **SETTINGS",
        '"tickets/mine", seeds=5,': '"tickets/mine", model=MODEL, data=SETTINGS["data"], '
        'numerics=SETTINGS["numerics"], seeds=2,',
        "seeds=3": "seeds=2",
        "model(num_labels=3)": "model(num_labels=3, base=MODEL)",
    }
    for printed, replaced in tiny.items():
        assert printed in block
        block = block.replace(printed, replaced)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOMBOLA_STORE", str(tmp_path / "store"))
    names = {
        "MODEL": str(tiny_bert),
        "SETTINGS": {
            "data": DataOptions(data=sentences, text="text", label="label"),
            "recipe": api.make_recipe(None, epochs=1, batch_size=32, learning_rate=1e-2, max_length=16),
            "numerics": api.make_numerics(threads=1, device="cpu"),
        },
    }
    exec(compile(block, "README.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "full" in printed
    assert "random" in printed
    assert (tmp_path / "tickets" / "mine" / "ticket.json").is_file()
    assert names["model"].num_labels == 3  # type: ignore[attr-defined]


def commands() -> list[str]:
    """Every ``tombola …`` line in the shell blocks of the README and the guides."""
    found = []
    for page in (README, *(path.read_text() for path in DOCS)):
        for block in re.findall(r"```sh\n(.*?)```", page, re.S):
            lines = [line.split("#")[0] for line in block.replace("\\\n", " ").splitlines()]
            found += [part.strip() for line in lines for part in line.split(";")]
    return list(dict.fromkeys(line for line in found if line.startswith("tombola ")))


@pytest.mark.parametrize("line", commands())
def test_commands_use_verbs_and_options_that_exist(line):
    command = typer.main.get_command(app)
    words = shlex.split(line)[1:]
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]  # type: ignore[attr-defined]
    assert not hasattr(command, "commands"), f"{words[:1]} is no verb"
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word.partition("=")[0] for word in words if word.startswith("--")} <= known


def test_there_are_commands_to_check():
    assert len(commands()) >= 12


def test_the_two_commands_are_targets_of_the_makefile():
    makefile = (Path(__file__).parent.parent / "Makefile").read_text()
    for target in re.findall(r"^make (\S+)", "\n".join(blocks("sh")), re.M):
        assert re.search(rf"^{target}:", makefile, re.M), target


@pytest.mark.parametrize("page", [Path("README.md"), Path("ARCHITECTURE.md"), *DOCS], ids=str)
def test_links_lead_somewhere(page):
    page = Path(__file__).parent.parent / page
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name}: {target}"
