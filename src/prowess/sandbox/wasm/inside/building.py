"""The program that builds the component from the guest package, and compiles it for this machine."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any

WORLD, WIT, APP = "sandbox", "guest/sandbox.wit", "guest.runner"


def main(options: dict[str, Any]) -> None:
    """Make `target` from `source`: machine code from a component, or a component from the folder of the guest package."""
    source, target = Path(options["source"]), Path(options["target"])
    if source.is_dir():
        _componentize(source, target)
    else:
        _precompile(source, target)


def _componentize(folder: Path, target: Path) -> None:
    tool: Any = importlib.import_module("componentize_py")
    # The entry point of the tool reads its command line.
    sys.argv = ["componentize-py", "--quiet", "--wit-path", str(folder / WIT), "--world", WORLD]
    sys.argv += ["componentize", "--python-path", str(folder), APP, "--output", str(target)]
    tool.script()


def _precompile(component: Path, target: Path) -> None:
    from prowess.sandbox.wasm.inside.engine import precompile

    # Private from the start: this is machine code that workers execute.
    with open(target, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        file.write(precompile(component.read_bytes()))
