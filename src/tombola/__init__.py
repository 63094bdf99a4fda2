"""tombola finds, verifies and shares lottery tickets in pre-trained models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from tombola.api import find, load, verify
    from tombola.errors import TombolaError
    from tombola.masks.weight_mask import WeightMask
    from tombola.ticket import Ticket
    from tombola.training.callback import TicketCallback

#: Public names and where they live; loaded when they are first used, so that `import tombola` costs nothing.
_HOMES = {
    "Ticket": "tombola.ticket",
    "TicketCallback": "tombola.training.callback",
    "TombolaError": "tombola.errors",
    "WeightMask": "tombola.masks.weight_mask",
    "find": "tombola.api",
    "load": "tombola.api",
    "verify": "tombola.api",
}

__all__ = ["Ticket", "TicketCallback", "TombolaError", "WeightMask", "__version__", "find", "load", "verify"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tombola' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
