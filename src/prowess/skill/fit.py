"""Fit a skill to a profile: return a package that passes it, and report everything that had to change.

Files that already pass stay byte for byte the same. Otherwise SKILL.md is rewritten and the rest is kept, as far as the
profile has room for it.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from prowess.errors import Problem
from prowess.skill import fit_changes
from prowess.skill.filenames import (
    CODEX_FILE,
    MAX_DESCRIPTION_CHARS,
    SIDECAR,
    SKILL_MD,
    STANDARD_FOLDERS,
    STANDARD_KEYS,
    find_document_path,
    find_skill_md,
    is_skill_md,
)
from prowess.skill.forms import write_package
from prowess.skill.forms.conversion import read_original, with_file_claims
from prowess.skill.forms.form import Writing
from prowess.skill.forms.markdown_writer import compose_document, drop_empty
from prowess.skill.forms.native import render_folder
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.mcp_extension import BYTES_LIMIT, FILES_LIMIT
from prowess.skill.model import Skill
from prowess.skill.package import File, Package
from prowess.skill.profiles import ProfileName, bernstein, checks, claude_code, mcp
from prowess.skill.profiles.claude_api import RESERVED
from prowess.skill.slug import is_slug, slugify
from prowess.skill.text.document import Document
from prowess.skill.text.reader import read_document
from prowess.skill.text.yaml import YamlRefused, load
from prowess.skill.text.yaml_writer import dump
from prowess.skill.validate import ValidationReport, rejection, validate

_KEPT_FILES = frozenset({SIDECAR, CODEX_FILE})


def choose_surplus_files(package: Package) -> list[File]:
    """Return the files to leave out: assets first, then the largest, never a file that says what the skill is."""
    count, total = len(package.files), sum(len(file.content) for file in package.files)
    surplus: list[File] = []
    others = [file for file in package.files if file.path not in _KEPT_FILES and not is_skill_md(file.path)]
    for file in sorted(others, key=_removal_order):
        if count <= FILES_LIMIT and total <= BYTES_LIMIT:
            break
        surplus.append(file)
        count, total = count - 1, total - len(file.content)
    return surplus


def _removal_order(file: File) -> tuple[bool, int, str]:
    return (not file.path.startswith("assets/"), -len(file.content), file.path)


def render_skill_md(fields: Mapping[str, Any], body: str) -> File:
    """Return a SKILL.md with these fields, without the empty ones, and this body.

    No three dashes in a row are written inside the frontmatter, because some readers end it there.
    """
    return File(path=SKILL_MD, content=compose_document(dump(drop_empty(fields), three_dashes=False), body))


def read_typed_fields(document: Document, limits: Limits) -> dict[str, Any]:
    """Return the fields of a document with flags and numbers as such, if the frontmatter is YAML."""
    try:
        loaded = load(document.raw or "", typed=True, limits=limits)
    except YamlRefused:
        return dict(document.fields)
    return checks.as_mapping(loaded.value) or {}


def flatten_metadata(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Return metadata as text to text, as the standard requires; structures become JSON."""
    return {str(key): _metadata_text(value) for key, value in metadata.items() if value is not None}


def _metadata_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)


def fit(skill: Skill, package: Package, profile: ProfileName, limits: Limits = DEFAULT_LIMITS) -> Writing:
    """Return the skill, whose files are `package`, as a package that passes `profile`, in a folder named after it.

    Everything that was left out, shortened, renamed or moved is in `left_out`. Raise `Invalid` with the problems for a skill that
    cannot be fitted because it has no description, hides text or is over `limits`.
    """
    accepted = validate(package, limits=limits)
    if not accepted.ok:
        raise rejection(accepted)
    name = choose_name(skill, profile)
    # Byte for byte, if the package already passes: fitting must not touch what needs no change.
    as_it_is = validate(_rename_package(package, name), profile, limits)
    if as_it_is.ok and (profile == "prowess" or _declared_name(as_it_is) in (None, name)):
        return Writing(package=as_it_is.reading.package)
    document = accepted.reading.document
    fitting = _Fitting(skill=skill, package=package, document=document, profile=profile, name=name, limits=limits)
    writing = _FITTERS[profile](fitting)
    # Checked like a package from elsewhere: a fitter that misses a rule must fail here and not at the client.
    fitted = validate(writing.package, profile, limits)
    if not fitted.ok:
        raise rejection(fitted)
    return writing


def _rename_package(package: Package, name: str) -> Package:
    return Package(name=name, files=package.files)


def _declared_name(report: ValidationReport) -> str | None:
    """Return the name in the frontmatter, or None."""
    document = report.reading.document
    name = document.fields.get("name") if document else None
    return None if name is None else str(name)


@dataclass(slots=True, kw_only=True)
class _Fitting:
    """A skill being fitted to a profile: its name there, and the changes so far."""

    skill: Skill
    package: Package
    document: Document | None
    profile: ProfileName
    name: str
    limits: Limits
    changed: list[Problem] = field(default_factory=list[Problem])

    def line(self, key: str) -> int | None:
        """Return the line of a key in the source, or None."""
        return self.document.lines.get(key) if self.document else None

    def settle_name(self) -> None:
        """Use the name that the profile accepts, and report it if it differs."""
        before = self.document.fields.get("name") if self.document else None
        before = before if isinstance(before, str) and before.strip() else self.skill.name
        if before != self.name:
            self.changed.append(fit_changes.renamed(before, self.name, self.line("name")))
        if self.skill.name != self.name:
            slug = self.skill.slug.rpartition(".")[0] + "." + self.name if "." in self.skill.slug else self.name
            self.skill = self.skill.model_copy(update={"slug": slug if is_slug(slug) else self.name})

    def settle_description(self, limit: int, minimum: int = 1, markup: bool = True) -> str:
        """Return a description within the limits, and report changes."""
        line = self.line("description")
        text = self.skill.description
        if self.document is not None and not self.document.fields.get("description"):
            self.changed.append(fit_changes.completed("description", "the rest of the skill"))
        if not markup and text != replace_angle_brackets(text):
            text = replace_angle_brackets(text)
            self.skill = self.skill.model_copy(update={"description": text})
            self.changed.append(fit_changes.replaced(line))
        if len(text) < minimum:
            text = lengthen(text, self.skill.title, minimum)
            self.changed.append(fit_changes.lengthened(minimum, line))
        short = shorten(text, limit)
        if short != text:
            self.changed.append(fit_changes.shortened(len(text), len(short), limit, line))
        return short

    def identified(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the fields with title and namespace, if the new name no longer gives them."""
        title, slug = self.skill.title, self.skill.slug
        # A reader takes title and namespace from the name if nothing else states them. After a renaming they have to be
        # stated, or the next import would lose them.
        if any(problem.code == "renamed" for problem in self.changed) and "title" not in fields:
            fields = {**fields, "title": title}
        return {**fields, "slug": slug} if slug != self.name else {k: v for k, v in fields.items() if k != "slug"}

    def as_native(self) -> Package:
        """Return the skill in the native form, with only the keys of the standard in SKILL.md."""
        original = read_original(self.package, self.skill, self.limits)
        skill = with_file_claims(self.skill, original)
        return Package.written(self.name, render_folder(skill, original, standard_only=True))

    def reading_of(self, package: Package) -> Document:
        """Return the document of an intermediate package."""
        file = find_skill_md(package)
        return read_document(file.content if file else b"", limits=self.limits)

    def done(self, package: Package, left_out: tuple[Problem, ...] = ()) -> Writing:
        """Return the result with each change once; if only the formatting changed, report that."""
        known = {problem.field for problem in self.changed}
        others = [problem for problem in left_out if (problem.field or "").rpartition(".")[2] not in known]
        reported = tuple(dict.fromkeys([*self.changed, *others])) or (fit_changes.rewritten(),)
        return Writing(package=_rename_package(package, self.name), left_out=reported)


def _fit_standard(fitting: _Fitting) -> Writing:
    """Keep only the six keys of the standard in SKILL.md, and move the others to the sidecar."""
    fitting.settle_name()
    description = fitting.settle_description(MAX_DESCRIPTION_CHARS, markup=fitting.profile != "claude-api")
    native = fitting.as_native()
    written = fitting.reading_of(native)
    fields = {key: value for key, value in read_typed_fields(written, fitting.limits).items() if key in STANDARD_KEYS}
    fields |= {"name": fitting.name, "description": description}
    fields["metadata"] = flatten_metadata(checks.as_mapping(fields.get("metadata")) or {})
    ordered = {key: fields[key] for key in STANDARD_KEYS if key in fields}
    fitting.changed += fit_changes.moved(fitting.document, {key for key, value in ordered.items() if value})
    return fitting.done(native.with_files([render_skill_md(ordered, written.body)]))


def _fit_open(fitting: _Fitting) -> Writing:
    """Keep all keys, and change only what the profile does not accept."""
    fitting.settle_name()
    description = fitting.settle_description(MAX_DESCRIPTION_CHARS if fitting.profile != "claude-code" else 10**9)
    package, document = fitting.package, fitting.document
    if document is None:
        package = fitting.as_native()
        document = fitting.reading_of(package)
    fields: dict[str, Any] = {"name": fitting.name, "description": description}
    fields |= {key: value for key, value in read_typed_fields(document, fitting.limits).items() if key not in fields}
    fields = fitting.identified(fields)
    if fitting.profile == "claude-code":
        fields = _drop_wrong_types(fitting, fields)
    if fitting.profile == "mcp":
        package = _drop_surplus_files(fitting, package)
        fields["metadata"] = _drop_reserved_metadata(fitting, fields.get("metadata"))
    return fitting.done(
        package.without([find_document_path(package)]).with_files([render_skill_md(fields, document.body)])
    )


def _drop_wrong_types(fitting: _Fitting, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields without those whose value has the wrong type."""
    problems = {key: claude_code.check_value(key, value, None) for key, value in fields.items()}
    wrong = {key for key, problem in problems.items() if problem and problem.severity == "error"}
    fitting.changed += fit_changes.left_out(
        fitting.document, set(fitting.document.fields if fitting.document else ()) - wrong
    )
    return {key: value for key, value in fields.items() if key not in wrong}


def _drop_surplus_files(fitting: _Fitting, package: Package) -> Package:
    """Return the package without the files that are too many or too large for the protocol."""
    surplus = choose_surplus_files(package)
    if not surplus:
        return package
    fitting.changed += [fit_changes.file_left_out(file.path, len(file.content)) for file in surplus]
    paths = {file.path for file in surplus}
    package = package.without(paths)
    # A sidecar lists the artifacts and would now name files that are gone, so it is written again without them.
    if package.get(SIDECAR) is None:
        return package
    artifacts = tuple(artifact for artifact in fitting.skill.artifacts if artifact.path not in paths)
    fitting.skill = fitting.skill.model_copy(update={"artifacts": artifacts})
    fitting.package = package
    return fitting.as_native()


def _drop_reserved_metadata(fitting: _Fitting, metadata: Any) -> Any:
    """Return the metadata without the keys that the protocol reserves."""
    mapping = checks.as_mapping(metadata)
    if mapping is None:
        return metadata
    reserved = [key for key in mapping if key.startswith(mcp.RESERVED)]
    for key in reserved:
        message = f"The metadata key {key[:80]!r} was left out because the protocol reserves it."
        fitting.changed.append(fit_changes.change("left-out", message, "Use another prefix.", key="metadata"))
    return {key: value for key, value in mapping.items() if key not in reserved}


def _fit_bernstein(fitting: _Fitting) -> Writing:
    """Write a manifest with its eight keys, listing the files of the package."""
    fitting.settle_name()
    description = fitting.settle_description(bernstein.LONGEST, bernstein.SHORTEST)
    writing = write_package(fitting.skill, fitting.package, "bernstein", limits=fitting.limits)
    document = fitting.reading_of(writing.package)
    files = {bucket: _files_below(writing.package, bucket) for bucket in STANDARD_FOLDERS}
    skill = fitting.skill
    fields: dict[str, Any] = {"name": fitting.name, "description": description}
    fields |= {"trigger_keywords": list(skill.keywords), **files, "version": skill.version, "author": skill.author}
    fitting.changed += fit_changes.left_out(fitting.document, set(bernstein.KEYS) | {"keywords", "trigger-keywords"})
    package = writing.package.without([find_document_path(writing.package)]).with_files(
        [render_skill_md(fields, document.body)]
    )
    return fitting.done(package, writing.left_out)


def _files_below(package: Package, bucket: str) -> list[str]:
    return [path.removeprefix(bucket + "/") for path in package.paths if path.startswith(bucket + "/")]


_FITTERS: dict[ProfileName, Callable[[_Fitting], Writing]] = {
    "agentskills": _fit_standard,
    "claude-api": _fit_standard,
    "claude-code": _fit_open,
    "codex": _fit_open,
    "mcp": _fit_open,
    "bernstein": _fit_bernstein,
    "prowess": _fit_open,
}


def choose_name(skill: Skill, profile: ProfileName) -> str:
    """Return the last segment of the slug, changed only as far as the profile requires."""
    name = skill.name
    if profile in ("claude-api", "bernstein"):
        name = _to_ascii(name)
    if profile == "claude-api":
        name = "-".join(word for word in name.split("-") if not any(reserved in word for reserved in RESERVED))
    if profile == "bernstein" and name and not bernstein.NAME.fullmatch(name):
        name = f"skill-{name}"[:64].rstrip("-")
    return name or f"skill-{skill.digest[:8]}"


def _to_ascii(name: str) -> str:
    """Return the name in the letters a to z: accents removed, other scripts left out."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode("ascii")
    return slugify(plain).rpartition(".")[2]


ELLIPSIS = "…"

_SENTENCE_END = re.compile(r"[.!?](?=\s)|[。！？]")
_LEAST_KEPT = 0.5


def shorten(text: str, limit: int) -> str:
    """Return the start of a text within `limit` characters, including the ellipsis; a text that fits is returned unchanged.

    It ends at a sentence if that keeps at least half of what fits, else at a word.
    """
    if len(text) <= limit:
        return text
    # Room for a space and the ellipsis.
    room = text[: limit - len(ELLIPSIS) - 1]
    ends = [found.end() for found in _SENTENCE_END.finditer(text, 0, len(room) + 1) if found.end() <= len(room)]
    if ends and ends[-1] >= len(room) * _LEAST_KEPT:
        return room[: ends[-1]] + " " + ELLIPSIS
    words = room.rstrip() if text[len(room)].isspace() else room.rpartition(" ")[0].rstrip()
    return (words if len(words) >= len(room) * _LEAST_KEPT else room.rstrip()) + ELLIPSIS


def lengthen(text: str, title: str, minimum: int) -> str:
    """Return a text of at least `minimum` characters with the same meaning, by adding the title of the skill."""
    if len(text) >= minimum:
        return text
    longer = f"{text.rstrip().rstrip('.')}. Use this skill for {title.rstrip('.') or 'this'}."
    return longer.ljust(minimum, ".")


def replace_angle_brackets(text: str) -> str:
    """Return the text with angle brackets that no parser mistakes for a tag."""
    return text.replace("<", "‹").replace(">", "›")
