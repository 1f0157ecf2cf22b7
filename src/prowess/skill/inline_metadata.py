"""The packages that a Python file says it needs, in a comment block at its top level as PEP 723 has it."""

from __future__ import annotations

import tomllib
from typing import Any

_BEGIN, _END = "# /// script", "# ///"
_LARGEST = 16_384


def inline_requirements(code: str) -> Any:
    """The `dependencies` of the block, as they stand; None where there is no block, or none that can be read."""
    block = _block(code)
    if block is None or len(block) > _LARGEST:
        return None
    try:
        return tomllib.loads(block).get("dependencies")
    except (tomllib.TOMLDecodeError, RecursionError):
        return None


def _block(code: str) -> str | None:
    """The text of the one block: from its first line to the last `# ///` of the comment that it stands in."""
    if _BEGIN not in code:
        return None
    lines = code.splitlines()
    starts = [place for place, line in enumerate(lines) if line.rstrip() == _BEGIN]
    if len(starts) != 1:
        return None
    inside: list[str] = []
    end: int | None = None
    for line in lines[starts[0] + 1 :]:
        if line.rstrip() == _END:
            end = len(inside)
        if not (line.rstrip() == "#" or line.startswith("# ")):
            break
        inside.append(line[2:])
    return None if end is None else "\n".join(inside[:end])
