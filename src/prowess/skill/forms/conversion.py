"""The table of forms: recognise the form of a package, read it, and write it in another form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from prowess.errors import Problem
from prowess.skill.filenames import SIDECAR, find_skill_md
from prowess.skill.forms import (
    agentcy,
    agentlayerrules,
    agentskills,
    bernstein,
    devai,
    inklings,
    markdown_reader,
    native,
)
from prowess.skill.forms import native as folder
from prowess.skill.forms.data import same_json
from prowess.skill.forms.form import Reading, Writing, error, warning
from prowess.skill.forms.origin import Origin, Original, dump_content
from prowess.skill.kinds import JsonObject
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.model import FormName, Skill
from prowess.skill.package import File, Package
from prowess.skill.text.document import Document

_MAX_PATHS = 5


def read_package(package: Package, limits: Limits = DEFAULT_LIMITS) -> Reading:
    """Read a package in the form that it is in. Bad content never raises; it is reported."""
    if package.get(SIDECAR) is not None:
        return native.read(package, limits)
    skill_md = find_skill_md(package)
    if skill_md is not None:
        return _read_document(package, skill_md, limits)
    if agentcy.is_lone(package):
        return markdown_reader.read("agentcy", package, limits)
    if devai.recognises(package, limits):
        return devai.read(package, limits)
    if inklings.recognises(package, limits):
        return inklings.read(package, limits)
    if agentlayerrules.recognises(package, limits):
        return agentlayerrules.read(package, limits)
    return _no_skill(package)


def _read_document(package: Package, file: File, limits: Limits) -> Reading:
    document = markdown_reader.document_of(file, limits)
    if not isinstance(document, Document):
        return Reading(form="agentskills", package=package, skill=None, problems=(document,))
    form: FormName = "agentskills"
    if bernstein.claims(document):
        form = "bernstein"
    elif agentcy.claims(document):
        form = "agentcy"
    return markdown_reader.read_skill(form, package, file.path, document, limits)


def _no_skill(package: Package) -> Reading:
    there = ", ".join(package.paths[:_MAX_PATHS]) + (", …" if len(package.paths) > _MAX_PATHS else "")
    message = f"There is no skill here: the package has {there or 'no files'}."
    hint = (
        "A skill is a folder with SKILL.md, a single markdown file, a folder with skill.json and an execute file, "
        "a JSON object with 'artifacts', or a YAML descriptor with 'skill_id'."
    )
    return Reading(form="agentskills", package=package, skill=None, problems=(error("no-skill", message, hint),))


_OBJECTS = ("metadata", "extra", "provenance")
_MAX_SHOWN = 60


def find_losses(skill: Skill, original: Original, written: Package, reading: Reading) -> tuple[Problem, ...]:
    """One warning for everything that the written package does not say as the skill does."""
    form = reading.form
    wanted = dump_content(skill)
    found = dump_content(reading.skill) if reading.skill is not None else {}
    lost = [_lost_field(form, name, value) for name, value in _lost_fields(wanted, found)]
    lost += _lost_artifacts(form, wanted["artifacts"], found.get("artifacts", []))
    lost += [_lost_file(form, file.path) for file in original.others if written.get(file.path) is None]
    return tuple(lost)


def _lost_fields(wanted: JsonObject, found: JsonObject) -> list[tuple[str, Any]]:
    lost: list[tuple[str, Any]] = []
    for name, value in wanted.items():
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


def _lost_artifacts(form: str, wanted: list[JsonObject], found: list[JsonObject]) -> list[Problem]:
    lost: list[Problem] = []
    by_name = {(one["name"], one["variant"]): one for one in found}
    for artifact in wanted:
        other = by_name.get((artifact["name"], artifact["variant"]))
        if other is None:
            other = next((one for one in found if _is_renamed(one, artifact)), None)
        what = f"the {artifact['kind']} {artifact['name'][:_MAX_SHOWN]!r}"
        if other is None:
            lost.append(_loss(form, f"has no place for {what}", artifact["name"]))
            continue
        changed = [
            field for field, value in artifact.items() if field != "path" and not same_json(other.get(field), value)
        ]
        if changed:
            lost.append(_loss(form, f"keeps {what} without its {', '.join(changed)}", artifact["name"]))
    return lost


def _is_renamed(other: JsonObject, artifact: JsonObject) -> bool:
    return bool(artifact["content"]) and other["content"] == artifact["content"]


def _lost_field(form: str, name: str, value: Any) -> Problem:
    shown = repr(value) if not isinstance(value, tuple) else ", ".join(str(part) for part in cast("tuple[Any]", value))
    short = shown if len(shown) <= _MAX_SHOWN else shown[: _MAX_SHOWN - 1] + "…"
    return _loss(form, f"has no place for {name} ({short})", name)


def _lost_file(form: str, path: str) -> Problem:
    return _loss(form, f"has no place for the file {path[:200]!r}", path)


def _loss(form: str, what: str, field: str) -> Problem:
    return warning("left-out", f"The form {form} {what}.", "Use the native form to keep it.", field=field)


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One form: how it is read and rendered, what only it needs, and the files it is described by.

    `read` never raises for bad content: it reports. `render` of what `read` gave loses nothing that the form can hold.
    """

    read: Callable[[Package, Limits], Reading]
    render: Callable[[Skill, Original], list[File]]
    origin: Callable[[Reading, Limits], Origin | None]
    controls: Callable[[Package, Limits], frozenset[str]]


def _document_form(form: FormName, render: Callable[[Skill, Original], list[File]]) -> Form:
    """A form that is one document and files beside it: only the writing is its own."""
    read = partial(markdown_reader.read, form)
    return Form(read=read, render=render, origin=markdown_reader.origin, controls=markdown_reader.controls)


FORMS: dict[FormName, Form] = {
    "native": Form(read=native.read, render=folder.render, origin=native.origin, controls=native.controls),
    "agentskills": _document_form("agentskills", agentskills.render),
    "agentcy": _document_form("agentcy", agentcy.render),
    "bernstein": _document_form("bernstein", bernstein.render),
    "devai": Form(read=devai.read, render=devai.render, origin=devai.origin, controls=devai.controls),
    "inklings": Form(read=inklings.read, render=inklings.render, origin=inklings.origin, controls=inklings.controls),
    "agentlayerrules": Form(
        read=agentlayerrules.read,
        render=agentlayerrules.render,
        origin=agentlayerrules.origin,
        controls=agentlayerrules.controls,
    ),
}


def write_package(skill: Skill, package: Package, form: FormName, limits: Limits = DEFAULT_LIMITS) -> Writing:
    """Write `skill`, whose files are `package`, in this form; a skill that is in it already keeps its bytes."""
    original = read_original(package, skill, limits)
    if original.reading.form == form and is_unchanged(skill, original):
        return Writing(package=package)
    skill = with_file_id(skill, original)
    member = FORMS[form]
    written = Package.written(skill.name, member.render(skill, original))
    return Writing(package=written, left_out=find_losses(skill, original, written, member.read(written, limits)))


def read_original(package: Package | None, skill: Skill, limits: Limits = DEFAULT_LIMITS) -> Original:
    """What a skill is written from: its package, read within `limits`; no package is an empty one."""
    package = package or Package(name="", files=())
    reading = read_package(package, limits)
    member = FORMS[reading.form]
    return Original(
        package=package,
        reading=reading,
        origin=member.origin(reading, limits) if reading.skill is not None else None,
        controls=member.controls(package, limits),
        claimed=frozenset(artifact.path for artifact in skill.artifacts if artifact.path is not None),
        limits=limits,
    )


def is_unchanged(skill: Skill, original: Original) -> bool:
    """Whether the skill says exactly what its files say."""
    before = original.reading.skill
    return before is not None and same_json(dump_content(before), dump_content(skill))


def with_file_id(skill: Skill, original: Original) -> Skill:
    """The skill with the id that its files give it, not the one of the store that keeps it."""
    before = original.reading.skill
    return skill if before is None else skill.model_copy(update={"id": before.id})
