"""Make a skill from one Markdown document and fields that are given next to it, and change a stored skill in the same way.

A given field takes precedence over the frontmatter, and is written into it. A document that already says the same keeps
its bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from prowess.errors import Invalid, Problem
from prowess.skill.edit import rewrite_package
from prowess.skill.filenames import SKILL_MD, find_document, is_skill_md
from prowess.skill.form_info import FormName
from prowess.skill.forms.conversion import read_package, write_package
from prowess.skill.limits import DEFAULT_LIMITS, UNLIMITED, Limits
from prowess.skill.model import Provenance, Scope, Skill
from prowess.skill.package import File, Package
from prowess.skill.prompt_block import prompt_chars
from prowess.skill.slug import check_slug, slugify
from prowess.skill.validate import ValidationReport, rejection, validate

SourceType = Literal["manual", "github", "url", "marketplace"]
SOURCE_FIELDS = ("source_type", "source_url", "source_ref", "source_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillDraft:
    """What someone gives to create or change a skill. None leaves a field as the document, or the stored skill, has it.

    `content` is the whole document, frontmatter included. `files` are its other files that change, as pairs of path and
    text; a text of None removes the file.
    """

    content: str | None = None
    files: tuple[tuple[str, str | None], ...] = ()
    slug: str | None = None
    title: str | None = None
    description: str | None = None
    version: str | None = None
    author: str | None = None
    tags: tuple[str, ...] | None = None
    source_type: SourceType | None = None
    source_url: str | None = None
    source_ref: str | None = None
    source_id: str | None = None

    def apply(self, skill: Skill) -> Skill:
        """Return the skill with the given fields."""
        named = ("slug", "title", "description", "version", "author", "tags")
        changes: dict[str, Any] = {name: getattr(self, name) for name in named if getattr(self, name) is not None}
        if self.description is not None:
            changes["described"] = True
        if self._sources:
            changes["provenance"] = skill.provenance.model_copy(update=self._sources)
        return skill.model_copy(update=changes) if changes else skill

    @property
    def provenance(self) -> Provenance | None:
        """Where the skill is from, as whoever sends the draft says; None if they say nothing."""
        return Provenance().model_copy(update=self._sources) if self._sources else None

    @property
    def _sources(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in SOURCE_FIELDS if getattr(self, name) is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedDocument:
    """A document as a draft: its frontmatter and body, what was read from them, and every problem with its line."""

    frontmatter: dict[str, Any]
    body: str
    body_line: int
    slug: str
    """The slug that the document says, or a suggestion; '' if nothing suggests one."""
    name: str
    description: str
    version: str
    author: str | None
    tags: tuple[str, ...]
    content_length: int
    ok: bool
    problems: tuple[Problem, ...]


def parse_document(content: str, *, limits: Limits = DEFAULT_LIMITS) -> ParsedDocument:
    """Read a document without storing anything. Bad content never raises."""
    return describe_report(validate(_document_package("", content), "prowess", limits), content, "org")


def describe_report(report: ValidationReport, content: str, scope: Scope) -> ParsedDocument:
    """Return what was read from a document, `content`, whose package was validated."""
    document, skill = report.reading.document, report.reading.skill
    return ParsedDocument(
        frontmatter=dict(document.fields) if document else {},
        body=document.body if document else content,
        body_line=document.body_line if document else 1,
        slug=skill.slug if skill else "",
        name=skill.title if skill else "",
        description=skill.searched_description if skill else "",
        version=skill.version if skill else "",
        author=skill.author if skill else None,
        tags=skill.tags if skill else (),
        content_length=prompt_chars(skill, scope) if skill else 0,
        ok=report.ok,
        problems=report.problems,
    )


def make_package(draft: SkillDraft, limits: Limits = DEFAULT_LIMITS) -> Package:
    """Return the files of a new skill. Raise `Invalid` with every problem if they cannot be stored."""
    slug = check_slug(draft.slug) if draft.slug is not None else slugify(draft.title or "")
    package = draft_package(draft, slug.rpartition(".")[2])
    report = validate(package, "prowess", limits)
    skill = report.reading.skill
    if skill is None:
        raise rejection(report)
    changed = draft.apply(skill)
    if changed == skill:
        return Package(name=skill.name, files=package.files)
    # Agentcy's form: one document that has all of these fields, also a title and a slug with a namespace.
    written = write_package(changed, package, "agentcy", limits)
    if written.left_out:
        return rewrite_package(changed, package, limits)
    files = [File(path=SKILL_MD, content=written.package.files[0].content)]
    return Package.written(changed.name, files) if len(written.package.files) == 1 else written.package


_GUESSED = frozenset({"name-missing", "name-not-slug"})
"""Problems of a document that does not say the slug of its skill."""


def change_package(skill: Skill, package: Package, draft: SkillDraft, limits: Limits = DEFAULT_LIMITS) -> Package:
    """Return the files of a stored skill with the changes of a draft. They keep their form if it can hold the changes.

    Raise `Invalid` for another slug: a slug never changes.
    """
    package = edit_package(draft, skill.form, package)
    reading = read_package(package, limits)
    read = reading.skill
    if (
        draft.slug is None
        and any(problem.code in _GUESSED for problem in reading.problems)
        and draft.content is not None
    ):
        # The document has a title, or nothing, from which a new skill would get its slug. This one has its own.
        draft = replace(draft, slug=skill.slug)
    if read is None or (read.slug != skill.slug and draft.content is None):
        # Some forms take the slug from the name of the folder, which may have been another one.
        read = read_package(Package(name=skill.slug, files=package.files), limits).skill or read
    if read is None:
        raise rejection(validate(package, "prowess", limits))
    for slug in (draft.slug, read.slug if draft.slug is None else None):
        if slug is not None and slug != skill.slug:
            raise Invalid(
                f"The skill {skill.slug!r} cannot be renamed to {slug!r}: a slug never changes.",
                hint="Create a skill under the new slug, then delete the old one.",
            )
    changed = draft.apply(read)
    if changed == read:
        return package
    written = write_package(changed, package, read.form, limits)
    return rewrite_package(changed, package, limits) if written.left_out else _same_path(written.package, package)


def draft_package(draft: SkillDraft, name: str = "") -> Package:
    """Return the files of a new skill as they were given, unchecked. Raise `Invalid` for a path that cannot be one."""
    return _change_files(_document_package(name, draft.content or ""), dict(draft.files))


def edit_package(draft: SkillDraft, form: FormName, package: Package) -> Package:
    """Return the files of a stored skill with the given document and files, unchecked. Raise `Invalid` as `draft_package`."""
    if draft.content is not None:
        package = _replace_document(form, package, draft.content)
    return _change_files(package, dict(draft.files))


def _change_files(package: Package, changes: Mapping[str, str | None]) -> Package:
    if not changes:
        return package
    if any(is_skill_md(path) for path in changes):
        raise Invalid(f"The file {SKILL_MD} is the document.", hint="Give its text as `content`.")
    files: list[File] = []
    for path, text in changes.items():
        if text is not None:
            known = package.get(path)
            # A file keeps its mode: a script may be executable.
            mode = known.mode if known else "0644"
            files.append(File(path=path, content=text.encode("utf-8", "replace"), mode=mode))
    return package.without(path for path, text in changes.items() if text is None).with_files(files)


def _document_package(name: str, content: str) -> Package:
    return Package.of_texts(name, {SKILL_MD: content.encode("utf-8", "replace")}, UNLIMITED)


def _replace_document(form: FormName, package: Package, content: str) -> Package:
    before = find_document(form, package)
    path, mode = (before.path, before.mode) if before else (SKILL_MD, "0644")
    return package.with_files([File(path=path, content=content.encode("utf-8", "replace"), mode=mode)])


def _same_path(written: Package, before: Package) -> Package:
    """Return a package of one document under the name that the document had."""
    if len(written.files) != 1 or len(before.files) != 1 or not is_skill_md(before.files[0].path):
        return written
    return Package.written(before.name, [File(path=before.files[0].path, content=written.files[0].content)])
