"""The table of all forms, and writing a skill in any of them, whatever form its files are in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from prowess.skill.forms import (
    agentcy,
    agentlayerrules,
    agentskills,
    bernstein,
    devai,
    folder,
    inklings,
    markdown,
    native,
)
from prowess.skill.forms.data import same
from prowess.skill.forms.form import Reading, Writing
from prowess.skill.forms.leftover import left_out
from prowess.skill.forms.origin import Origin
from prowess.skill.forms.original import Original, content_of
from prowess.skill.forms.recognise import read_package
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.model import FormName, Skill
from prowess.skill.package import File, Package


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One form: how it is read and rendered, what only it needs, and the files it is described by.

    `read` never raises for bad content: it reports. `render` of what `read` gave loses nothing that the form can hold.
    """

    read: Callable[[Package, Limits], Reading]
    render: Callable[[Skill, Original], list[File]]
    origin: Callable[[Reading, Limits], Origin | None]
    controls: Callable[[Package, Limits], frozenset[str]]


def _document(form: FormName, render: Callable[[Skill, Original], list[File]]) -> Member:
    """A form that is one document and files beside it: only the writing is its own."""
    read = partial(markdown.read, form)
    return Member(read=read, render=render, origin=markdown.origin, controls=markdown.controls)


MEMBERS: dict[FormName, Member] = {
    "native": Member(read=native.read, render=folder.render, origin=native.origin, controls=native.controls),
    "agentskills": _document("agentskills", agentskills.render),
    "agentcy": _document("agentcy", agentcy.render),
    "bernstein": _document("bernstein", bernstein.render),
    "devai": Member(read=devai.read, render=devai.render, origin=devai.origin, controls=devai.controls),
    "inklings": Member(read=inklings.read, render=inklings.render, origin=inklings.origin, controls=inklings.controls),
    "agentlayerrules": Member(
        read=agentlayerrules.read,
        render=agentlayerrules.render,
        origin=agentlayerrules.origin,
        controls=agentlayerrules.controls,
    ),
}


def write_package(skill: Skill, package: Package, form: FormName, limits: Limits = DEFAULT_LIMITS) -> Writing:
    """Write `skill`, whose files are `package`, in this form; a skill that is in it already keeps its bytes."""
    original = source_of(package, skill, limits)
    if original.reading.form == form and is_unchanged(skill, original):
        return Writing(package=package)
    skill = as_in_files(skill, original)
    member = MEMBERS[form]
    written = Package.written(skill.name, member.render(skill, original))
    return Writing(package=written, left_out=left_out(skill, original, written, member.read(written, limits)))


def source_of(package: Package | None, skill: Skill, limits: Limits = DEFAULT_LIMITS) -> Original:
    """What a skill is written from: its package, read within `limits`; no package is an empty one."""
    package = package or Package(name="", files=())
    reading = read_package(package, limits)
    member = MEMBERS[reading.form]
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
    return before is not None and same(content_of(before), content_of(skill))


def as_in_files(skill: Skill, original: Original) -> Skill:
    """The skill with the id that its files give it, not the one of the store that keeps it."""
    before = original.reading.skill
    return skill if before is None else skill.model_copy(update={"id": before.id})
