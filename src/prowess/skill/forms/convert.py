"""The table of all forms, and writing a skill in any of them, whatever form its files are in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from prowess.skill.forms import agentcy, agentlayerrules, agentskills, bernstein, devai, folder, inklings, native
from prowess.skill.forms.data import same
from prowess.skill.forms.form import Form, Reading, Writing
from prowess.skill.forms.leftover import left_out
from prowess.skill.forms.origin import Origin
from prowess.skill.forms.recognise import read_package
from prowess.skill.forms.source import Source, content_of
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.model import FormName, Skill
from prowess.skill.package import File, Package


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One form: how it is recognised, read and rendered, what only it needs, and the files it is described by."""

    name: FormName
    recognise: Callable[[Package], bool]
    reader: Callable[[Package, Limits], Reading]
    render: Callable[[Skill, Source], list[File]]
    origin: Callable[[Reading], Origin | None]
    controls: Callable[[Package], frozenset[str]]

    def recognises(self, package: Package) -> bool:
        """Whether the package is in this form, by its content."""
        return self.recognise(package)

    def read(self, package: Package, limits: Limits = DEFAULT_LIMITS) -> Reading:
        """Read the skill in this form."""
        return self.reader(package, limits)

    def write(self, skill: Skill, package: Package) -> Writing:
        """Write the skill in this form."""
        return write_package(skill, package, self.name)


def _member(name: FormName, form: object, render: Callable[[Skill, Source], list[File]]) -> Member:
    parts = {"recognise": "recognises", "reader": "read", "origin": "origin", "controls": "controls"}
    return Member(name=name, render=render, **{field: getattr(form, part) for field, part in parts.items()})


MEMBERS: dict[FormName, Member] = {
    "native": _member("native", native, folder.render),
    "agentskills": _member("agentskills", agentskills, agentskills.render),
    "agentcy": _member("agentcy", agentcy, agentcy.render),
    "bernstein": _member("bernstein", bernstein, bernstein.render),
    "devai": _member("devai", devai, devai.render),
    "inklings": _member("inklings", inklings, inklings.render),
    "agentlayerrules": _member("agentlayerrules", agentlayerrules, agentlayerrules.render),
}
FORMS: dict[FormName, Form] = dict[FormName, Form](MEMBERS)


def write_package(skill: Skill, package: Package, form: FormName) -> Writing:
    """Write `skill`, whose files are `package`, in this form; a skill that is in it already keeps its bytes."""
    source = source_of(package, skill)
    if source.reading.form == form and is_unchanged(skill, source):
        return Writing(package=package)
    skill = as_in_files(skill, source)
    member = MEMBERS[form]
    written = Package.written(skill.slug.rpartition(".")[2], member.render(skill, source))
    return Writing(package=written, left_out=left_out(skill, source, written, member.read(written)))


def source_of(package: Package | None, skill: Skill) -> Source:
    """The package as the source of a skill; no package is an empty one."""
    package = package or Package(name="", files=())
    reading = read_package(package)
    member = MEMBERS[reading.form]
    return Source(
        package=package,
        reading=reading,
        origin=member.origin(reading) if reading.skill is not None else None,
        controls=member.controls(package),
        claimed=frozenset(artifact.path for artifact in skill.artifacts if artifact.path is not None),
    )


def is_unchanged(skill: Skill, source: Source) -> bool:
    """Whether the skill says exactly what its files say."""
    before = source.reading.skill
    return before is not None and same(content_of(before), content_of(skill))


def as_in_files(skill: Skill, source: Source) -> Skill:
    """The skill with the id that its files give it, not the one of the store that keeps it."""
    before = source.reading.skill
    return skill if before is None else skill.model_copy(update={"id": before.id})
