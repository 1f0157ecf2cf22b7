"""Recognise the form of a package, read it, and write it in another form."""

from __future__ import annotations

from typing import Any, cast

from prowess.errors import Problem, Unavailable
from prowess.skill.form_info import FORMS, FormName
from prowess.skill.forms.data import same_json
from prowess.skill.forms.form import Candidate, Reading, Writing, error, warning
from prowess.skill.forms.origin import Original, dump_content
from prowess.skill.kinds import JsonObject
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.model import Skill, unrecorded
from prowess.skill.package import Package

_MAX_PATHS = 5


def read_package(package: Package, limits: Limits = DEFAULT_LIMITS) -> Reading:
    """Read a package in its form. Never raises for bad content; problems are reported."""
    candidate = Candidate(package, limits)
    for row in FORMS.values():
        try:
            form = row.load()
            if form.recognises(candidate):
                return form.read(candidate)
        except Unavailable as failed:
            # The form is a plugin's, which fails at this package, perhaps at no other.
            problem = error("no-skill", failed.message, failed.hint)
            return Reading(form="agentskills", package=package, skill=None, problems=(problem,))
    return _no_skill(package)


def _no_skill(package: Package) -> Reading:
    there = ", ".join(package.paths[:_MAX_PATHS]) + (", …" if len(package.paths) > _MAX_PATHS else "")
    message = f"No skill found. The package contains {there or 'no files'}."
    hint = (
        "A skill is a folder with SKILL.md, a single markdown file, a folder with skill.json and an "
        "execute file, a JSON object with 'artifacts', or a YAML descriptor with 'skill_id'."
    )
    return Reading(form="agentskills", package=package, skill=None, problems=(error("no-skill", message, hint),))


_OBJECTS = ("metadata", "extra", "provenance")
_MAX_SHOWN = 60


def find_losses(skill: Skill, original: Original, written: Package, reading: Reading) -> tuple[Problem, ...]:
    """Return one warning per part of the skill that the written package does not contain unchanged."""
    form = reading.form
    expected = dump_content(skill)
    found = dump_content(reading.skill) if reading.skill is not None else {}
    lost = [_lost_field(form, name, value) for name, value in _lost_fields(expected, found)]
    lost += _lost_artifacts(form, expected["artifacts"], found.get("artifacts", []))
    gone = [file.path for file in original.others if written.get(file.path) is None]
    lost += [_loss(form, f"cannot store the file {path[:200]!r}", path) for path in gone]
    return tuple(lost)


def _lost_fields(expected: JsonObject, found: JsonObject) -> list[tuple[str, Any]]:
    lost: list[tuple[str, Any]] = []
    for name, value in expected.items():
        if name == "artifacts" or same_json(found.get(name), value):
            continue
        if name in _OBJECTS:
            there = cast("JsonObject", found.get(name) or {})
            lost += [
                (f"{name}.{key}", part)
                for key, part in cast("JsonObject", value).items()
                if key not in there or not same_json(there[key], part)
            ]
        else:
            lost.append((name, value))
    return lost


def _lost_artifacts(form: str, expected: list[JsonObject], found: list[JsonObject]) -> list[Problem]:
    lost: list[Problem] = []
    by_name = {(artifact["name"], artifact["variant"]): artifact for artifact in found}
    for artifact in expected:
        other = by_name.get((artifact["name"], artifact["variant"]))
        if other is None and artifact["content"]:
            # Some forms name artifacts by their path; the same content under another name is not lost.
            other = next((one for one in found if one["content"] == artifact["content"]), None)
        what = f"the {artifact['kind']} {artifact['name'][:_MAX_SHOWN]!r}"
        if other is None:
            lost.append(_loss(form, f"cannot store {what}", artifact["name"]))
            continue
        changed = [
            field for field, value in artifact.items() if field != "path" and not same_json(other.get(field), value)
        ]
        if changed:
            lost.append(_loss(form, f"stores {what} without its {', '.join(changed)}", artifact["name"]))
    return lost


def _lost_field(form: str, name: str, value: Any) -> Problem:
    text = repr(value) if not isinstance(value, tuple) else ", ".join(str(part) for part in cast("tuple[Any]", value))
    short = text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 1] + "…"
    return _loss(form, f"cannot store {name} ({short})", name)


def _loss(form: str, what: str, field: str) -> Problem:
    return warning("left-out", f"The {form} form {what}.", "Use the native form to keep it.", field=field)


def write_package(skill: Skill, package: Package, form: FormName, limits: Limits = DEFAULT_LIMITS) -> Writing:
    """Write `skill`, whose files are `package`, in this form. A skill already in this form keeps its bytes."""
    original = read_original(package, skill, limits)
    skill = with_file_claims(skill, original)
    if original.reading.form == form and is_unchanged(skill, original):
        return Writing(package=package)
    member = FORMS[form].load()
    written = Package.written(skill.name, member.render(skill, original))
    # Read back instead of trusting the writer: losses are found by comparing, so that no form has to list what it
    # lacks.
    reading = member.read(Candidate(written, limits))
    return Writing(package=written, left_out=find_losses(skill, original, written, reading))


def read_original(package: Package | None, skill: Skill, limits: Limits = DEFAULT_LIMITS) -> Original:
    """Read the package that a skill is written from. Without a package, start from an empty one."""
    package = package or Package(name="", files=())
    reading = read_package(package, limits)
    member = FORMS[reading.form].load()
    return Original(
        package=package,
        reading=reading,
        origin=member.origin(reading, limits) if reading.skill is not None else None,
        controls=member.controls(package, limits),
        # An artifact that was added since the files were read may name one of them; it is then the artifact's file and
        # not an extra one.
        claimed=frozenset(artifact.path for artifact in skill.artifacts if artifact.path is not None),
        limits=limits,
    )


def is_unchanged(skill: Skill, original: Original) -> bool:
    """Return True if the skill matches its files exactly."""
    before = original.reading.skill
    return before is not None and same_json(dump_content(before), dump_content(skill))


def with_file_claims(skill: Skill, original: Original) -> Skill:
    """Return the skill with the id from its files instead of the id from its store.

    The same goes for where they say that it is from, unless its store has recorded that.
    """
    before = original.reading.skill
    if before is None:
        return skill
    is_recorded = skill.provenance != unrecorded(skill.scope)
    provenance = skill.provenance if is_recorded else before.provenance
    return skill.model_copy(update={"id": before.id, "provenance": provenance})
