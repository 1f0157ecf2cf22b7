"""What a form had no place for: found by reading what was written and comparing it with the skill."""

from __future__ import annotations

from typing import Any, cast

from prowess.errors import Problem
from prowess.skill.forms.codes import warning
from prowess.skill.forms.data import same
from prowess.skill.forms.form import Reading
from prowess.skill.forms.original import Original, content_of
from prowess.skill.kinds import JsonObject
from prowess.skill.model import Skill
from prowess.skill.package import Package

_OBJECTS = ("metadata", "extra", "provenance")
_SHOWN = 60


def left_out(skill: Skill, original: Original, written: Package, reading: Reading) -> tuple[Problem, ...]:
    """One warning for everything that the written package does not say as the skill does."""
    form = reading.form
    wanted = content_of(skill)
    found = content_of(reading.skill) if reading.skill is not None else {}
    lost = [_field(form, name, value) for name, value in _lost_fields(wanted, found)]
    lost += _lost_artifacts(form, wanted["artifacts"], found.get("artifacts", []))
    lost += [_file(form, file.path) for file in original.others if written.get(file.path) is None]
    return tuple(lost)


def _lost_fields(wanted: JsonObject, found: JsonObject) -> list[tuple[str, Any]]:
    lost: list[tuple[str, Any]] = []
    for name, value in wanted.items():
        if name == "artifacts" or same(found.get(name), value):
            continue
        if name in _OBJECTS:
            there = cast("JsonObject", found.get(name) or {})
            lost += [
                (f"{name}.{key}", part)
                for key, part in cast("JsonObject", value).items()
                if key not in there or not same(there[key], part)
            ]
        else:
            lost.append((name, value))
    return lost


def _lost_artifacts(form: str, wanted: list[JsonObject], found: list[JsonObject]) -> list[Problem]:
    lost: list[Problem] = []
    by_name = {(one["name"], one["variant"]): one for one in found}
    for artifact in wanted:
        other = by_name.get((artifact["name"], artifact["variant"]))
        if other is None:
            other = next((one for one in found if _is_renamed(one, artifact)), None)
        what = f"the {artifact['kind']} {artifact['name'][:_SHOWN]!r}"
        if other is None:
            lost.append(_problem(form, f"has no place for {what}", artifact["name"]))
            continue
        changed = [field for field, value in artifact.items() if field != "path" and not same(other.get(field), value)]
        if changed:
            lost.append(_problem(form, f"keeps {what} without its {', '.join(changed)}", artifact["name"]))
    return lost


def _is_renamed(other: JsonObject, artifact: JsonObject) -> bool:
    return bool(artifact["content"]) and other["content"] == artifact["content"]


def _field(form: str, name: str, value: Any) -> Problem:
    shown = repr(value) if not isinstance(value, tuple) else ", ".join(str(part) for part in cast("tuple[Any]", value))
    short = shown if len(shown) <= _SHOWN else shown[: _SHOWN - 1] + "…"
    return _problem(form, f"has no place for {name} ({short})", name)


def _file(form: str, path: str) -> Problem:
    return _problem(form, f"has no place for the file {path[:200]!r}", path)


def _problem(form: str, what: str, field: str) -> Problem:
    return warning("left-out", f"The form {form} {what}.", "Use the native form to keep it.", field=field)
