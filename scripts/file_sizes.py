"""Check file sizes: at most 400 lines for source and 600 for tests; exceptions may only shrink."""

from __future__ import annotations

import sys
from pathlib import Path

LIMITS = {"src": 400, "benchmarks": 400, "scripts": 400, "tests": 600}
EXCEPTIONS: dict[str, int] = {}
"""Path → its number of lines. Lower it when the file shrinks; delete it when the file fits."""


def find_problems(root: Path) -> list[str]:
    """Return a message for each file that is too long, or whose exception is out of date."""
    found: list[str] = []
    for folder, limit in LIMITS.items():
        for path in sorted((root / folder).rglob("*.py")):
            name = path.relative_to(root).as_posix()
            lines = len(path.read_text().splitlines())
            allowed = EXCEPTIONS.get(name, limit)
            if lines > allowed:
                found.append(f"{name} has {lines} lines, {allowed} are allowed: split it")
            elif name in EXCEPTIONS and lines < EXCEPTIONS[name]:
                found.append(f"{name} shrank to {lines} lines: lower its exception in scripts/file_sizes.py")
    return found


if __name__ == "__main__":
    problems = find_problems(Path(__file__).resolve().parents[1])
    print("\n".join(problems) if problems else "file sizes: ok")
    sys.exit(bool(problems))
