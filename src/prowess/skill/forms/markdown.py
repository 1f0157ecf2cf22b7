"""What the forms that are built on SKILL.md share: one document, and files in the standard's three folders."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

from prowess.errors import Problem
from prowess.skill.filenames import BUCKETS, NAME_LENGTH, SKILL_MD, document_path, short_name
from prowess.skill.forms.codes import error, info
from prowess.skill.forms.data import too_large
from prowess.skill.forms.draft import draft
from prowess.skill.forms.form import Reading
from prowess.skill.forms.origin import Origin
from prowess.skill.forms.trusted import trusted_instructions, trusted_skill
from prowess.skill.kinds import Artifact, Asset, Kind, Reference, Script
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.model import FormName, Skill
from prowess.skill.package import File, Package
from prowess.skill.text.document import Document
from prowess.skill.text.reader import read_document

_MODELS = {"reference": Reference, "script": Script, "asset": Asset}


def read(form: FormName, package: Package, limits: Limits) -> Reading:
    """Read the document of a package in this form, whether or not it claims to be in it."""
    path = document_path(package)
    document = document_of(package.get(path), limits)
    if isinstance(document, Problem):
        return Reading(form=form, package=package, skill=None, problems=(document,))
    return read_skill(form, package, path, document, limits)


def document_of(file: File | None, limits: Limits) -> Document | Problem:
    """The document in a file, empty where there is none, or the problem that keeps it from being read."""
    content = file.content if file else b""
    if file is not None and len(content) > limits.skill_md_bytes:
        return too_large(file.path, len(content), limits.skill_md_bytes, "skill-md-too-large")
    return read_document(content, limits=limits)


def origin(reading: Reading, limits: Limits) -> Origin:  # noqa: ARG001  the signature of all forms
    """The origin of a skill that is a document: its path, where that is not SKILL.md, and its frontmatter."""
    path = document_path(reading.package)
    raw = reading.document.raw if reading.document else None
    return Origin(form=reading.form, path=None if path == SKILL_MD else path, frontmatter=raw, bare=raw is None)


def controls(package: Package, limits: Limits) -> frozenset[str]:  # noqa: ARG001  the signature of all forms
    """The file that says what the skill is."""
    return frozenset({document_path(package)})


def read_skill(
    form: FormName, package: Package, path: str, document: Document, limits: Limits = DEFAULT_LIMITS
) -> Reading:
    """Read a skill that is one document and the files beside it."""
    problems = list(document.problems)
    values = draft(form, package, path, document, problems)
    if values is None:
        return Reading(form=form, package=package, skill=None, problems=tuple(problems), document=document)
    body = document.body
    artifacts: list[Artifact] = [trusted_instructions(path, body)] if body and not body.isspace() else []
    if len(package.files) > 1:
        artifacts += file_artifacts(package, {artifact.name for artifact in artifacts})
    check_body(document, limits, problems)
    skill = finish(values, form, package, document, artifacts)
    return Reading(form=form, package=package, skill=skill, problems=tuple(problems), document=document)


def finish(
    values: dict[str, Any], form: FormName, package: Package, document: Document, artifacts: list[Artifact]
) -> Skill:
    """The skill itself."""
    values["form"] = form
    values["frontmatter"] = document.raw
    values["artifacts"] = tuple(artifacts)
    values["manifest"] = package.manifest
    values["digest"] = package.digest
    values["content_length"] = sum(len(artifact.content) for artifact in artifacts if artifact.kind == "instructions")
    return trusted_skill(values) if form != "native" else Skill.model_validate(values)


def check_body(document: Document, limits: Limits, problems: list[Problem]) -> None:
    """Report a body that is empty or over the limit."""
    length = len(document.body)
    if length > limits.body_chars:
        message = f"The text below the frontmatter has {length:,} characters; the limit is {limits.body_chars:,}."
        hint = "Move parts of it to files under references/."
        problems.append(error("body-too-long", message, hint, line=document.body_line))
    elif not length or document.body.isspace():
        problems.append(
            info("body-empty", "There is no text below the frontmatter.", "Write down what the agent should do.")
        )


def file_artifacts(package: Package, taken: set[str]) -> list[Artifact]:
    """The files under references/, scripts/ and assets/, by kind and path; names already `taken` are avoided."""
    return [
        file_artifact(kind, file.path, taken)
        for bucket, kind in BUCKETS.items()
        for file in package.files
        if file.path.startswith(bucket + "/")
    ]


def file_artifact(kind: Kind, path: str, taken: set[str]) -> Artifact:
    """The artifact that a file is, called by its path below the bucket, or by the whole path where that is taken."""
    name = next(name for name in _names(path) if name not in taken)
    taken.add(name)
    return _MODELS[kind](name=name, path=path, ordinal=1)


def _names(path: str) -> Iterator[str]:
    """What a file may be called, the best first; no two are the same, and there is always another."""
    yield short_name(path)
    yield path[-NAME_LENGTH:]
    yield from (f"{path}~{number}"[-NAME_LENGTH:] for number in count(2))
