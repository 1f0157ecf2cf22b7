"""How programs of the sandbox are started: each in a process of its own, without this one's environment."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

_PACKAGES = ("prowess", "wasmtime", "componentize_py")
_START = (
    "import sys, json, importlib; told = json.loads(sys.argv[1]); sys.path += told['folders']; "
    "importlib.import_module(told['program']).main(told)"
)


def command(program: str, *, package: str = "wasm.inside", **told: Any) -> list[str]:
    """What starts the `main` of a module; it is handed what it is told, and has the standard library and three packages."""
    found = [importlib.util.find_spec(name) for name in _PACKAGES]
    folders = list(dict.fromkeys(str(Path(spec.origin).parents[1]) for spec in found if spec and spec.origin))
    argument = json.dumps({**told, "program": f"prowess.sandbox.{package}.{program}", "folders": folders})
    return [sys.executable, "-ISB", "-X", "utf8", "-c", _START, argument]
