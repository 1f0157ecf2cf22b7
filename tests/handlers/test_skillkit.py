"""`prowess.skillkit` describes the context as it is, and needs nothing of Prowess but itself."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from prowess import skillkit
from prowess.sandbox.guest import bridge as context


def _members(kind: type) -> set[str]:
    slots = getattr(kind, "__slots__", ())
    return {name for name in (*vars(kind), *slots) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("described", "made"), [(skillkit.SkillContext, context.Context), (skillkit.Response, context.Response)]
)
def test_what_is_described_is_what_a_function_has(described, made):
    assert _members(described) == _members(made)


@pytest.mark.parametrize("name", ["fetch", "read_file", "write_file", "log"])
def test_a_call_takes_what_it_is_described_to_take(name):
    described = inspect.signature(getattr(skillkit.SkillContext, name)).parameters
    made = inspect.signature(getattr(context.Context, name)).parameters
    assert [(one.name, one.kind, one.default) for one in described.values()] == [
        (one.name, one.kind, one.default) for one in made.values()
    ]


def test_it_needs_nothing_else():
    code = (
        "import importlib.util, sys; before = set(sys.modules);"
        f"spec = importlib.util.spec_from_file_location('skillkit', {skillkit.__file__!r});"
        "made = importlib.util.module_from_spec(spec); spec.loader.exec_module(made);"
        "print([name for name in sys.modules if name.startswith(('prowess', 'pydantic'))], made.__all__)"
    )
    ran = subprocess.run([sys.executable, "-IS", "-c", code], capture_output=True, text=True, check=False)
    assert ran.stdout == "[] ['Response', 'SkillContext', 'SkillResult']\n", ran.stderr
