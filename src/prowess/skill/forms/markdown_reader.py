"""Read the forms that are one Markdown document with files next to it.

A catalog reads thousands of SKILL.md files at once, so models are constructed here without validating values whose
types are known already.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

from pydantic import BaseModel

from prowess.errors import Problem
from prowess.skill.filenames import (
    MAX_ARTIFACT_NAME_CHARS,
    SKILL_MD,
    STANDARD_FOLDERS,
    find_document_path,
    name_in_folder,
)
from prowess.skill.form_info import FormName
from prowess.skill.forms.form import Candidate, Reading, error, info
from prowess.skill.forms.frontmatter_fields import is_people_only, read_fields
from prowess.skill.forms.origin import Origin
from prowess.skill.kinds import Artifact, Instructions, Kind, construct, kind_info
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.model import Skill
from prowess.skill.package import Package
from prowess.skill.text.document import Document


def _defaults(model: type[BaseModel]) -> dict[str, Any]:
    """Return all fields in order with their immutable defaults. The others are given each time."""
    return {name: None if field.is_required() else field.default for name, field in model.model_fields.items()}


_SKILL = _defaults(Skill)
_INSTRUCTIONS = _defaults(Instructions)


def construct_skill(values: dict[str, Any]) -> Skill:
    """Construct a skill from values that have exactly the types of their fields."""
    return construct(Skill, {**_SKILL, "metadata": {}, "policy": {}, "extra": {}, **values}, set(values))


def construct_instructions(path: str, content: str) -> Instructions:
    """Construct the artifact for the body of a document."""
    values = {"name": "instructions", "path": path, "content": content}
    return construct(Instructions, {**_INSTRUCTIONS, "metadata": {}, **values}, set(values))


def read(form: FormName, candidate: Candidate) -> Reading:
    """Read the document of a package in this form, whether or not the form recognises it."""
    document, package = candidate.document, candidate.package
    if isinstance(document, Problem):
        return Reading(form=form, package=package, skill=None, problems=(document,))
    return read_skill(form, package, find_document_path(package), document, candidate.limits)


def origin(reading: Reading, limits: Limits) -> Origin:  # noqa: ARG001  the signature of all forms
    """Return the origin of a document: its path, unless that is SKILL.md, and its frontmatter."""
    path = find_document_path(reading.package)
    raw = reading.document.raw if reading.document else None
    return Origin(form=reading.form, path=None if path == SKILL_MD else path, frontmatter=raw, bare=raw is None)


def controls(package: Package, limits: Limits) -> frozenset[str]:  # noqa: ARG001  the signature of all forms
    """Return the path of the document."""
    return frozenset({find_document_path(package)})


def read_skill(
    form: FormName, package: Package, path: str, document: Document, limits: Limits = DEFAULT_LIMITS
) -> Reading:
    """Read a skill that is one document and the files next to it."""
    problems = list(document.problems)
    values = read_fields(form, package, path, document, problems)
    if values is None:
        return Reading(form=form, package=package, skill=None, problems=tuple(problems), document=document)
    body = document.body
    artifacts: list[Artifact] = [construct_instructions(path, body)] if body and not body.isspace() else []
    if len(package.files) > 1:
        artifacts += file_artifacts(package, {artifact.name for artifact in artifacts})
    check_body(document, limits, problems)
    skill = build_skill(values, form, package, document, artifacts)
    return Reading(form=form, package=package, skill=skill, problems=tuple(problems), document=document)


def build_skill(
    values: dict[str, Any], form: FormName, package: Package, document: Document, artifacts: list[Artifact]
) -> Skill:
    """Build the skill from its fields and artifacts."""
    values["form"] = form
    values["frontmatter"] = document.raw
    values["artifacts"] = tuple(artifacts)
    values["manifest"] = package.manifest
    values["digest"] = package.digest
    if is_people_only(values.get("extra", {}), package):
        values["people_only"] = True
    # The sidecar of a native skill may hold any type, so only there the values are validated.
    return construct_skill(values) if form != "native" else Skill.model_validate(values)


def check_body(document: Document, limits: Limits, problems: list[Problem]) -> None:
    """Report a body that is empty or over the limit."""
    length = len(document.body)
    if length > limits.body_chars:
        message = f"The text below the frontmatter has {length:,} characters; the limit is {limits.body_chars:,}."
        hint = "Move parts of it to files under references/."
        problems.append(error("body-too-long", message, hint, line=document.body_line))
    elif not length or document.body.isspace():
        problems.append(
            info("body-empty", "There is no text below the frontmatter.", "Write what the agent should do.")
        )


def file_artifacts(package: Package, names: set[str]) -> list[Artifact]:
    """Return the files under references/, scripts/ and assets/, by kind and path, with names not in `names`."""
    return [
        file_artifact(kind, file.path, names)
        for bucket, kind in STANDARD_FOLDERS.items()
        for file in package.files
        if file.path.startswith(bucket + "/")
    ]


def file_artifact(kind: Kind, path: str, names: set[str]) -> Artifact:
    """Return the artifact of a file, named by its path below the folder, or by the whole path if that name is taken."""
    name = next(name for name in _names(path) if name not in names)
    names.add(name)
    return kind_info(kind).model(kind=kind, name=name, path=path, ordinal=1)


def _names(path: str) -> Iterator[str]:
    """Yield possible names of a file, the best first. All differ, and there is always another one."""
    yield name_in_folder(path)
    yield path[-MAX_ARTIFACT_NAME_CHARS:]
    yield from (f"{path}~{number}"[-MAX_ARTIFACT_NAME_CHARS:] for number in count(2))
