"""What the forms that are built on SKILL.md share: one document, and files in the standard's three folders."""

from __future__ import annotations

from typing import Any

from prowess.errors import Problem
from prowess.skill.forms.codes import error, info
from prowess.skill.forms.data import too_large
from prowess.skill.forms.draft import BUCKETS, SKILL_MD, SPELLINGS, draft
from prowess.skill.forms.form import Reading
from prowess.skill.forms.origin import Origin
from prowess.skill.forms.trusted import trusted_instructions, trusted_skill
from prowess.skill.kinds import Artifact, Asset, Kind, Reference, Script
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.model import FormName, Skill
from prowess.skill.package import Package
from prowess.skill.text.document import Document
from prowess.skill.text.reader import read_document

NAME_LENGTH = 200

_MODELS = {"reference": Reference, "script": Script, "asset": Asset}


def find_skill_md(package: Package) -> str | None:
    """The path of SKILL.md, however it is spelt."""
    if package.get(SKILL_MD) is not None:
        return SKILL_MD
    return next((file.path for file in package.files if file.path.lower() in SPELLINGS), None)


def document_of(package: Package, path: str, limits: Limits = DEFAULT_LIMITS) -> Document | Problem:
    """The document at `path`, or the problem that keeps it from being read."""
    file = package.get(path)
    content = file.content if file else b""
    if len(content) > limits.skill_md_bytes:
        return too_large(path, len(content), limits.skill_md_bytes, "skill-md-too-large")
    return read_document(content, limits=limits)


def document_origin(reading: Reading) -> Origin:
    """The origin of a skill that is a document: its path, where that is not SKILL.md, and its frontmatter."""
    path = document_path(reading.package)
    raw = reading.document.raw if reading.document else None
    return Origin(form=reading.form, path=None if path == SKILL_MD else path, frontmatter=raw, bare=raw is None)


def document_path(package: Package) -> str:
    """The document of the package: SKILL.md, or the only file there is."""
    return find_skill_md(package) or next((file.path for file in package.files), SKILL_MD)


def controls(package: Package) -> frozenset[str]:
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
    name = short_name(path)
    while name in taken:
        name = path[-NAME_LENGTH:] if name == short_name(path) else f"{name}~"[-NAME_LENGTH:]
    taken.add(name)
    return _MODELS[kind](name=name, path=path, ordinal=1)


def short_name(path: str) -> str:
    """What a file is called inside its folder."""
    return path.partition("/")[2][-NAME_LENGTH:] or path
