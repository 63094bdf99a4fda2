"""The one kind of error a user of tombola meets: what went wrong, where, and what to do about it."""

from __future__ import annotations


class TombolaError(Exception):
    """A mistake in the input or the surroundings, told so that the reader can act.

    ``what`` is one plain sentence; ``where`` names the file, row, parameter or option; ``todo`` is the next step.
    """

    def __init__(self, what: str, *, where: str = "", todo: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.todo = todo

    def __str__(self) -> str:
        lines = [self.what]
        if self.where:
            lines.append(f"  where: {self.where}")
        if self.todo:
            lines.append(f"  to do: {self.todo}")
        return "\n".join(lines)


class UsageError(TombolaError):
    """An option or argument that cannot be meant."""


class UnsupportedModel(TombolaError):
    """A model whose family, class or weights tombola cannot take."""


class MaskMismatch(TombolaError):
    """A mask whose names or shapes do not fit the model or the other mask."""


class CorruptArtifact(TombolaError):
    """A ticket, checkpoint or stored run that is damaged, tampered with, foreign or too new."""


class DataError(TombolaError):
    """Data that cannot be read as the task needs it."""


class RecipeError(TombolaError):
    """Settings of a method, training or study that contradict each other or are out of range."""


class StoreError(TombolaError):
    """A run that cannot be written, read or recomputed."""


class TrainingError(TombolaError):
    """A training that cannot go on (a loss that is not a number, say)."""


def nearest(word: str, known: list[str] | tuple[str, ...]) -> str:
    """``did you mean 'x'?`` for the closest known word, or the list of all of them."""
    import difflib

    close = difflib.get_close_matches(word, known, n=1)
    if close:
        return f"did you mean '{close[0]}'? known: {', '.join(sorted(known))}"
    return f"known: {', '.join(sorted(known))}"
