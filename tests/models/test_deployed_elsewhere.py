"""In a process that has not imported tombola no loader may take a smaller model for a full one: each must raise."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.tiny import random_model

from tombola.masks.structure_mask import StructureMask
from tombola.models.deployed import smaller
from tombola.models.deployed_config import ELSEWHERE
from tombola.models.families import FAMILIES

YES, NO = True, False
ALL = (YES,) * 4
CUTS = {
    "heads": StructureMask(((YES, NO, YES, NO), (YES, YES, YES, NO)), (YES, YES)),
    "the same heads everywhere": StructureMask(((YES, NO, NO, NO),) * 2, (YES, YES)),
    "FFNs": StructureMask((ALL, ALL), (YES, NO)),
    "all FFNs": StructureMask((ALL, ALL), (NO, NO)),
    "both": StructureMask(((YES, NO, NO, YES), ALL), (NO, YES)),
    "a layer without heads": StructureMask((ALL, (NO,) * 4), (YES, YES)),
    "nothing": StructureMask.full((4, 4)),
}
CONCRETE = {
    "bert": "Bert",
    "roberta": "Roberta",
    "distilbert": "DistilBert",
    "electra": "Electra",
    "gpt2": "GPT2",
    "deberta-v2": "DebertaV2",
    "modernbert": "ModernBert",
    "vit": "ViT",
}
#: Loads every folder with every plain loader, and prints what each did.
LOADERS = """
import json, sys
import transformers

told = []
for folder, stem, task in json.loads(sys.argv[1]):
    for loader in ("AutoModel", f"AutoModelFor{task}", f"{stem}Model", f"{stem}For{task}"):
        made = getattr(transformers, loader)
        for extra in ({}, {"num_attention_heads": 4}):
            for ignore in (False, True):
                try:
                    made.from_pretrained(folder, ignore_mismatched_sizes=ignore, **extra)
                    told.append([folder, loader, ignore, "", "loaded"])
                except Exception as error:
                    told.append([folder, loader, ignore, type(error).__name__, str(error)])
    for loader in ("AutoConfig", f"{stem}Config"):
        try:
            getattr(transformers, loader).from_pretrained(folder)
            told.append([folder, loader, False, "", "loaded"])
        except Exception as error:
            told.append([folder, loader, False, type(error).__name__, str(error)])
assert "tombola" not in sys.modules
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[list]:
    """Every folder, loader, option, and how it ended: one process for all, since importing takes longest."""
    place, jobs = tmp_path_factory.mktemp("elsewhere"), []
    for family, stem in CONCRETE.items():
        task = "ImageClassification" if family == "vit" else "SequenceClassification"
        for cut, mask in (
            CUTS.items() if family == "bert" else list(CUTS.items())[:1] + list(CUTS.items())[3:4]
        ):
            folder = place / family / cut.replace(" ", "-")
            smaller(random_model(f"{stem}For{task}", family), mask).save_pretrained(folder)
            jobs.append((str(folder), stem, task))
    done = subprocess.run(
        [sys.executable, "-c", LOADERS, json.dumps(jobs)], capture_output=True, text=True, cwd=place
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_every_family_is_here():
    assert set(CONCRETE) == set(FAMILIES)


def test_no_plain_loader_loads(told: list[list]):
    assert len(told) == (len(CUTS) + 2 * (len(CONCRETE) - 1)) * (4 * 2 * 2 + 2)
    assert [row for row in told if row[-1] == "loaded"] == []


def test_auto_classes_name_the_type_and_concrete_ones_say_what_to_do(told: list[list]):
    for folder, loader, _, kind, reason in told:
        family = Path(folder).parent.name
        if loader.startswith("Auto"):
            assert kind == "ValueError"
            assert f"tombola_{family}" in reason
        else:
            assert "tombola.load" in ELSEWHERE
            assert ELSEWHERE in reason, (loader, reason)
