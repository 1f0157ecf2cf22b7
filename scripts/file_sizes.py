"""The file-size ratchet: 400 lines is the limit for source, 600 for tests; exceptions may only shrink."""

from __future__ import annotations

import sys
from pathlib import Path

LIMITS = {"src": 400, "benchmarks": 400, "scripts": 400, "tests": 600}
EXCEPTIONS: dict[str, int] = {}
"""Path → the number of lines it has today. Lower it when the file shrinks; delete it when the file fits."""


def complaints(root: Path) -> list[str]:
    """What is too large, or has an exception that it no longer needs."""
    found: list[str] = []
    for folder, limit in LIMITS.items():
        for path in sorted((root / folder).rglob("*.py")):
            name = path.relative_to(root).as_posix()
            lines = len(path.read_text().splitlines())
            allowed = EXCEPTIONS.get(name, limit)
            if lines > allowed:
                found.append(f"{name} has {lines} lines, {allowed} are allowed: make it two files")
            elif name in EXCEPTIONS and lines < EXCEPTIONS[name]:
                found.append(f"{name} shrank to {lines} lines: lower its exception in scripts/file_sizes.py")
    return found


if __name__ == "__main__":
    told = complaints(Path(__file__).resolve().parents[1])
    print("\n".join(told) if told else "file sizes: in order")
    sys.exit(bool(told))
