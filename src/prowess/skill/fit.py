"""Fitting a skill to a profile: a package that passes it, and everything that had to change on the way.

Files that pass already are left as they are, byte for byte. Otherwise SKILL.md is written anew and the rest is kept,
as far as the profile has room for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from prowess.errors import Problem
from prowess.skill.filenames import (
    BUCKETS,
    DESCRIPTION_LIMIT,
    SIDECAR,
    STANDARD_KEYS,
    document_path,
    find_skill_md,
)
from prowess.skill.fitting import changes
from prowess.skill.fitting.frontmatter import flat_metadata, skill_md, typed_fields
from prowess.skill.fitting.names import name_for
from prowess.skill.fitting.sizes import surplus
from prowess.skill.fitting.texts import lengthen, shorten, without_markup
from prowess.skill.forms import write_package
from prowess.skill.forms.convert import as_in_files, source_of
from prowess.skill.forms.folder import render_folder
from prowess.skill.forms.form import Writing
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.model import Skill
from prowess.skill.package import Package
from prowess.skill.profiles import ProfileName, bernstein, claude_code, mcp, rules
from prowess.skill.slug import is_slug
from prowess.skill.text.document import Document
from prowess.skill.text.reader import read_document
from prowess.skill.validate import Report, refusal, validate


def fit(skill: Skill, package: Package, profile: ProfileName, limits: Limits = DEFAULT_LIMITS) -> Writing:
    """The skill, whose files are `package`, as a package that passes `profile`, in a folder of its own name.

    What had to be left out, shortened, renamed or moved is in `left_out`. A skill that cannot be fitted, because it
    has no description, hides text or is over `limits`, raises `Invalid` with the problems.
    """
    accepted = validate(package, limits=limits)
    if not accepted.ok:
        raise refusal(accepted)
    name = name_for(skill, profile)
    as_it_is = validate(_named(package, name), profile, limits)
    if as_it_is.ok and (profile == "prowess" or _name_of(as_it_is) in (None, name)):
        return Writing(package=as_it_is.reading.package)
    document = accepted.reading.document
    fitting = _Fitting(skill=skill, package=package, document=document, profile=profile, name=name, limits=limits)
    writing = _WAYS[profile](fitting)
    fitted = validate(writing.package, profile, limits)
    if not fitted.ok:
        raise refusal(fitted)
    return writing


def _named(package: Package, name: str) -> Package:
    return Package(name=name, files=package.files)


def _name_of(report: Report) -> str | None:
    """The name in the frontmatter, if there is one."""
    document = report.reading.document
    name = document.fields.get("name") if document else None
    return None if name is None else str(name)


@dataclass(slots=True, kw_only=True)
class _Fitting:
    """A skill on its way to a profile: what it is called there, and what was changed so far."""

    skill: Skill
    package: Package
    document: Document | None
    profile: ProfileName
    name: str
    limits: Limits
    changed: list[Problem] = field(default_factory=list[Problem])

    def line(self, key: str) -> int | None:
        """The line of a key in the source."""
        return self.document.lines.get(key) if self.document else None

    def settle_name(self) -> None:
        """Take the name that the profile accepts, and tell if it is another."""
        before = self.document.fields.get("name") if self.document else None
        before = before if isinstance(before, str) and before.strip() else self.skill.name
        if before != self.name:
            self.changed.append(changes.renamed(before, self.name, self.line("name")))
        if self.skill.name != self.name:
            slug = self.skill.slug.rpartition(".")[0] + "." + self.name if "." in self.skill.slug else self.name
            self.skill = self.skill.model_copy(update={"slug": slug if is_slug(slug) else self.name})

    def settle_description(self, limit: int, least: int = 1, markup: bool = True) -> str:
        """A description within the limits, and what it took to get there."""
        line = self.line("description")
        text = self.skill.description
        if self.document is not None and not self.document.fields.get("description"):
            self.changed.append(changes.completed("description", "what else the skill says"))
        if not markup and text != without_markup(text):
            text = without_markup(text)
            self.skill = self.skill.model_copy(update={"description": text})
            self.changed.append(changes.replaced(line))
        if len(text) < least:
            text = lengthen(text, self.skill.title, least)
            self.changed.append(changes.lengthened(least, line))
        short = shorten(text, limit)
        if short != text:
            self.changed.append(changes.shortened(len(text), len(short), limit, line))
        return short

    def identified(self, fields: dict[str, Any]) -> dict[str, Any]:
        """The fields with title and namespace, where the new name no longer says them."""
        title, slug = self.skill.title, self.skill.slug
        if any(problem.code == "renamed" for problem in self.changed) and "title" not in fields:
            fields = {**fields, "title": title}
        return {**fields, "slug": slug} if slug != self.name else {k: v for k, v in fields.items() if k != "slug"}

    def as_native(self) -> Package:
        """The skill in the native form, with only the keys of the standard in SKILL.md."""
        original = source_of(self.package, self.skill, self.limits)
        skill = as_in_files(self.skill, original)
        return Package.written(self.name, render_folder(skill, original, standard_only=True))

    def reading_of(self, package: Package) -> Document:
        """The document of a package that was written on the way."""
        file = find_skill_md(package)
        return read_document(file.content if file else b"", limits=self.limits)

    def done(self, package: Package, left_out: tuple[Problem, ...] = ()) -> Writing:
        """The writing, each change told once; where nothing but the writing changed, that is told."""
        known = {problem.field for problem in self.changed}
        others = [problem for problem in left_out if (problem.field or "").rpartition(".")[2] not in known]
        told = tuple(dict.fromkeys([*self.changed, *others])) or (changes.rewritten(),)
        return Writing(package=_named(package, self.name), left_out=told)


def _standard(fitting: _Fitting) -> Writing:
    """Only the six keys of the standard in SKILL.md; the others stand in the sidecar."""
    fitting.settle_name()
    description = fitting.settle_description(DESCRIPTION_LIMIT, markup=fitting.profile != "claude-api")
    native = fitting.as_native()
    written = fitting.reading_of(native)
    fields = {key: value for key, value in typed_fields(written, fitting.limits).items() if key in STANDARD_KEYS}
    fields |= {"name": fitting.name, "description": description}
    fields["metadata"] = flat_metadata(rules.as_mapping(fields.get("metadata")) or {})
    ordered = {key: fields[key] for key in STANDARD_KEYS if key in fields}
    fitting.changed += changes.moved(fitting.document, {key for key, value in ordered.items() if value})
    return fitting.done(native.with_files([skill_md(ordered, written.body)]))


def _open(fitting: _Fitting) -> Writing:
    """All keys stay; only what the profile cannot take is mended."""
    fitting.settle_name()
    description = fitting.settle_description(DESCRIPTION_LIMIT if fitting.profile != "claude-code" else 10**9)
    package, document = fitting.package, fitting.document
    if document is None:
        package = fitting.as_native()
        document = fitting.reading_of(package)
    fields: dict[str, Any] = {"name": fitting.name, "description": description}
    fields |= {key: value for key, value in typed_fields(document, fitting.limits).items() if key not in fields}
    fields = fitting.identified(fields)
    if fitting.profile == "claude-code":
        fields = _usable_by_claude_code(fitting, fields)
    if fitting.profile == "mcp":
        package = _within_limits(fitting, package)
        fields["metadata"] = _without_reserved(fitting, fields.get("metadata"))
    return fitting.done(package.without([document_path(package)]).with_files([skill_md(fields, document.body)]))


def _usable_by_claude_code(fitting: _Fitting, fields: dict[str, Any]) -> dict[str, Any]:
    """The fields without those that have a value of the wrong type."""
    problems = {key: claude_code.check_value(key, value, None) for key, value in fields.items()}
    wrong = {key for key, problem in problems.items() if problem and problem.severity == "error"}
    fitting.changed += changes.left_out(
        fitting.document, set(fitting.document.fields if fitting.document else ()) - wrong
    )
    return {key: value for key, value in fields.items() if key not in wrong}


def _within_limits(fitting: _Fitting, package: Package) -> Package:
    """The package without the files that are too many or too large for the protocol."""
    gone = surplus(package)
    if not gone:
        return package
    fitting.changed += [changes.file_left_out(file.path, len(file.content)) for file in gone]
    paths = {file.path for file in gone}
    package = package.without(paths)
    if package.get(SIDECAR) is None:
        return package
    artifacts = tuple(artifact for artifact in fitting.skill.artifacts if artifact.path not in paths)
    fitting.skill = fitting.skill.model_copy(update={"artifacts": artifacts})
    fitting.package = package
    return fitting.as_native()


def _without_reserved(fitting: _Fitting, metadata: Any) -> Any:
    """The metadata without the keys that the protocol keeps for itself."""
    mapping = rules.as_mapping(metadata)
    if mapping is None:
        return metadata
    taken = [key for key in mapping if key.startswith(mcp.RESERVED)]
    for key in taken:
        message = f"The metadata key {key[:80]!r} was left out, because the protocol reserves it."
        fitting.changed.append(changes.change("left-out", message, "Choose another prefix.", key="metadata"))
    return {key: value for key, value in mapping.items() if key not in taken}


def _bernstein(fitting: _Fitting) -> Writing:
    """A manifest of its eight keys, listing the files that are there."""
    fitting.settle_name()
    description = fitting.settle_description(bernstein.LONGEST, bernstein.SHORTEST)
    writing = write_package(fitting.skill, fitting.package, "bernstein", limits=fitting.limits)
    document = fitting.reading_of(writing.package)
    files = {bucket: _below(writing.package, bucket) for bucket in BUCKETS}
    skill = fitting.skill
    fields: dict[str, Any] = {"name": fitting.name, "description": description}
    fields |= {"trigger_keywords": list(skill.keywords), **files, "version": skill.version, "author": skill.author}
    fitting.changed += changes.left_out(fitting.document, set(bernstein.KEYS) | {"keywords", "trigger-keywords"})
    package = writing.package.without([document_path(writing.package)]).with_files([skill_md(fields, document.body)])
    return fitting.done(package, writing.left_out)


def _below(package: Package, bucket: str) -> list[str]:
    return [path.removeprefix(bucket + "/") for path in package.paths if path.startswith(bucket + "/")]


_WAYS: dict[ProfileName, Callable[[_Fitting], Writing]] = {
    "agentskills": _standard,
    "claude-api": _standard,
    "claude-code": _open,
    "codex": _open,
    "mcp": _open,
    "bernstein": _bernstein,
    "prowess": _open,
}
