"""A model in onnxruntime, called with the batches that the torch model takes."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tombola.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

_WANTED = ("onnx", "onnxruntime", "onnxscript")


def require_onnx() -> None:
    """Refuse, before any work, to go on without the optional packages."""
    missing = [name for name in _WANTED if find_spec(name) is None]
    if missing:
        raise UsageError(
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed",
            where="ONNX",
            todo='pip install "tombola[onnx]"',
        )


@contextmanager
def quiet() -> Iterator[None]:
    """Exporters warn and log about their own insides; what a user needs to know is raised."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


class OnnxModel:
    """A session on the CPU. Its threads rest between calls, so that whoever is timed next has the machine."""

    def __init__(self, path: Path, *, threads: int = 1) -> None:
        require_onnx()
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        options.add_session_config_entry("session.force_spinning_stop", "1")
        self._session: Any = onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"]
        )
        self.inputs: tuple[str, ...] = tuple(each.name for each in self._session.get_inputs())
        self.outputs: tuple[str, ...] = tuple(each.name for each in self._session.get_outputs())

    def __call__(self, batch: Mapping[str, Tensor]) -> Sequence[np.ndarray]:
        """All outputs, in the order in which the file declares them."""
        return self._session.run(None, {name: batch[name].cpu().numpy() for name in self.inputs})
