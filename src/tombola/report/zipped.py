"""An archive as one zip whose bytes depend on its files' names and contents alone."""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tombola.studies.artefact import Archive

#: The first moment that a zip can hold: equal archives have equal bytes whenever they were written.
EPOCH = (1980, 1, 1, 0, 0, 0)
READABLE = 0o644 << 16


def zip_file(archive: Archive) -> dict[str, bytes]:
    """The zip's contents by its file's name."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, text in archive.files:
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, READABLE
            # The system that wrote it would be noted otherwise.
            entry.create_system = 3
            opened.writestr(entry, text.encode())
    return {f"{archive.name}.zip": written.getvalue()}
