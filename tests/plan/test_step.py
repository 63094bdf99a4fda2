"""Identities: what a step is, and nothing of where or when, decides them."""

from tests.problems import made_up_problem

from tombola.plan.graph import Graph, unique
from tombola.plan.step import Step
from tombola.plan.trainings import dense_training, pruning, random_mask


def test_identity_ignores_sources_label_and_cost():
    bare = Step("train", 1, {"seed": 0})
    dressed = Step("train", 1, {"seed": 0}, sources={"model": "/somewhere"}, label="a label", cost=7)
    assert bare == dressed
    assert hash(bare) == hash(dressed)


def test_identity_follows_kind_version_parameters_and_inputs():
    plain = Step("train", 1, {"seed": 0})
    first = Step("prune", 1, {}, {"weights": plain.out("weights")})
    others = [
        Step("prune", 1, {}, {"weights": plain.out("other")}),
        Step("prune", 2, {}, {"weights": plain.out("weights")}),
        Step("prune", 1, {"x": 1}, {"weights": plain.out("weights")}),
        Step("prune", 1, {}, {"weights": Step("train", 1, {"seed": 1}).out("weights")}),
        Step("score", 1, {}, {"weights": plain.out("weights")}),
    ]
    assert len({first.identity, *(step.identity for step in others)}) == 6


def test_identities_are_pinned():
    """A change here makes every stored run of every user unreachable: never by accident."""
    problem = made_up_problem()
    dense = dense_training(problem, 3)
    mask = pruning(problem, weights=dense.out("weights.safetensors"), within=None, zeros=50, label="")
    drawn = random_mask(problem, zeros=50, seed=3)
    assert dense.identity == PINNED["dense"]
    assert mask.identity == PINNED["mask"]
    assert drawn.identity == PINNED["drawn"]


PINNED = {
    "dense": "9ba4c28504cab89e0f8350a8d44e516d649bd11444639c93cdbb64a867be2ce1",
    "mask": "c74f15dd76cb78404fe38e82faaabcd9bf26175c90a7363a19b7b3aaf3d144fd",
    "drawn": "c32c476369d27a1a7956f2f575b5a3d9ea423961b97dd308a3d94daed85b2f7a",
}


def test_graph_has_each_step_once_and_inputs_first():
    a = Step("a", 1, {})
    b = Step("b", 1, {}, {"x": a.out("o")})
    c = Step("c", 1, {}, {"x": a.out("o"), "y": b.out("o")})
    again = Step("c", 1, {}, {"x": a.out("o"), "y": b.out("o")})
    steps = Graph((c, again, b)).steps
    assert [step.kind for step in steps] == ["a", "b", "c"]
    assert unique([c, again]) == (c,)


def test_a_long_chain_does_not_exhaust_the_stack():
    step = Step("a", 1, {})
    for number in range(5000):
        step = Step("a", 1, {"number": number}, {"x": step.out("o")})
    assert len(Graph((step,)).steps) == 5001
