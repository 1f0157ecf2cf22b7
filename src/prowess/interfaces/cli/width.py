"""The width of the terminal, without `shutil`, which would bring three compression libraries into every command."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

_DEFAULT = 80


def terminal_width() -> int:
    """Return COLUMNS, or else the width of the terminal that stdout is; 80 if neither is known."""
    with suppress(ValueError):
        given = int(os.environ.get("COLUMNS", ""))
        if given > 0:
            return given
    # There may be no stdout, or one that is closed or not a terminal.
    with suppress(AttributeError, ValueError, OSError):
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or _DEFAULT  # pyright: ignore[reportOptionalMemberAccess]
    return _DEFAULT
