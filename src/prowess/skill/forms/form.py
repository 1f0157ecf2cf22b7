"""The results of reading and writing a form, and the problems that either can report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass as plain_dataclass
from dataclasses import field
from functools import cached_property

from prowess.errors import Problem
from prowess.lazy_dataclass import dataclass
from prowess.skill.filenames import find_document_path, find_skill_md
from prowess.skill.form_info import FormName
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.model import Skill
from prowess.skill.package import File, Package
from prowess.skill.text.document import Document


@plain_dataclass(frozen=True)
class Candidate:
    """A package whose form is not known yet. Its document is parsed once, however many forms look at it."""

    package: Package
    limits: Limits = DEFAULT_LIMITS

    @cached_property
    def skill_md(self) -> File | None:
        """Return SKILL.md in any spelling, or None."""
        return find_skill_md(self.package)

    @cached_property
    def document(self) -> Document | Problem:
        """Parse SKILL.md, or else the first file. Empty without a file; a problem if the file is too large."""
        file = self.package.get(find_document_path(self.package))
        content, limit = (file.content if file else b""), self.limits.skill_md_bytes
        if file is not None and len(content) > limit:
            return too_large_problem(file.path, len(content), limit, "skill-md-too-large")
        from prowess.skill.text.reader import (
            read_document,  # imports the YAML parser, which users of the types below do not need
        )

        return read_document(content, limits=self.limits)

    def claims(self, test: Callable[[Document], bool]) -> bool:
        """Return True if there is a SKILL.md and it passes the test."""
        return self.skill_md is not None and isinstance(self.document, Document) and test(self.document)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The result of reading a package: the skill, or None if it is unusable, and every problem.

    `document` is the SKILL.md (or other Markdown) that it was read from, for the forms that have one.
    """

    form: FormName
    package: Package
    skill: Skill | None
    problems: tuple[Problem, ...] = ()
    document: Document | None = None
    accepted: Limits | None = field(default=None, compare=False)
    """The limits under which `accept` returned it; None if it was only read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """A skill written in some form, and the parts that the form could not express."""

    package: Package
    left_out: tuple[Problem, ...] = ()


CODES: dict[str, str] = {
    "no-skill": "The package does not contain a skill in any known form.",
    "no-slug": "The skill has no name: no field, folder or heading provides one.",
    "skill-md-missing": "The package has the sidecar of a native skill but no SKILL.md.",
    "skill-md-spelling": "SKILL.md is spelled differently; some clients look for exactly SKILL.md.",
    "skill-md-too-large": "SKILL.md is over the size limit and was not read.",
    "file-too-large": "A file that describes the skill is over the size limit and was not read.",
    "body-too-long": "The text for the prompt is over the size limit.",
    "body-empty": "There is no text below the frontmatter.",
    "unknown-field": "An unknown field; it is kept.",
    "field-spelling": "A field has unusual capitalisation; it is read anyway.",
    "repeated-field": "Two fields mean the same thing; the first one is used and the other is kept.",
    "removed-field": "A field that is no longer part of the form; it is kept.",
    "wrong-type": "A field has a value of the wrong type.",
    "name-missing": "There is no name; the slug was derived from the folder or a heading.",
    "name-not-slug": "The name is free text; the slug was derived from it.",
    "name-differs-from-folder": "The name differs from the name of the skill's folder.",
    "slug-invalid": "The slug is not valid; another one was derived from it.",
    "description-missing": "There is no description, and no text to derive one from.",
    "description-from-body": "There is no description, so search and match do not rank the skill. Lists show the beginning of its text.",
    "description-differs": "SKILL.md and the sidecar have different descriptions; the one in SKILL.md is used.",
    "missing-file": "A file that the skill refers to is not in the package.",
    "not-text": "A text file is not UTF-8.",
    "duplicate-artifact": "Two artifacts have the same name and variant; the first one is used.",
    "fallback-cycle": "The fallbacks of artifacts form a cycle.",
    "unknown-fallback": "A fallback refers to an artifact that does not exist.",
    "dspy-fallback-kind": "The fallback of a dspy_module is not a prompt_template.",
    "dspy-without-fallback": "A dspy_module has no fallback for systems without DSPy.",
    "dspy-content-invalid": "A dspy_module's content is not a JSON object with a template_id.",
    "dspy-state-invalid": "The saved state of a dspy_module is not one that DSPy saves; it is kept, and the fallback runs instead.",
    "too-many-artifacts": "The skill has too many artifacts; the rest were not read.",
    "unknown-kind": "An artifact has a kind that the form does not support.",
    "kind-not-installed": "An artifact has the kind of a plugin that is not installed; it is kept, but cannot run.",
    "artifact-invalid": "An artifact has invalid settings.",
    "state-blob-unreadable": "A saved state is not base64-encoded JSON; it is kept but not used.",
    "sidecar-unreadable": "agents/prowess.yaml cannot be read.",
    "sidecar-unknown-field": "agents/prowess.yaml has an unknown field.",
    "sidecar-invalid": "A field of agents/prowess.yaml has an invalid value.",
    "json-unreadable": "A file is not valid JSON, or uses JSON that skills do not support.",
    "json-duplicate-key": "A JSON object has a key twice; the last one is used.",
    "yaml-unreadable": "A file is not valid YAML, or uses YAML that skills do not support.",
    "several-descriptors": "The package has more than one descriptor; the first one was read.",
    "several-functions": "The package has more than one execute file; the first one was read.",
    "function-missing": "A Devai skill has no execute file, or the file of a descriptor's handler is missing.",
    "implementation-unknown": "The implementation type is not ts_function, http_call or cli_command.",
    "template-type-unknown": "The template type is not LLM_JSON_GENERATION or LLM_REVIEW.",
    "template-config-missing": "A template type is set but template_config is missing.",
    "prompt-id-missing": "A generation does not say which prompt to use.",
    "prompt-unknown": "The prompt is not in the registry.",
    "rubric-id-missing": "A review does not say which rubric to use.",
    "rubric-unknown": "The rubric is not in the registry.",
    "output-schema-missing": "A generation has no output schema to check the answer against.",
    "output-schema-not-review": "The output schema does not have the fields of a review's result.",
    "prompt-invalid": "A prompt file has no template or no id.",
    "rubric-invalid": "A rubric file has no usable content.",
    "rubric-without-criteria": "A rubric has no criteria.",
    "rubric-duplicate-criterion": "Two criteria of a rubric have the same id.",
    "rubric-criterion-incomplete": "A criterion is missing a required field.",
    "rubric-weight-not-positive": "The weight of a criterion is not a positive number.",
    "rubric-scoring-mode": "The scoring mode is not binary or weighted.",
    "rubric-without-threshold": "A weighted rubric has no pass threshold.",
    "rubric-threshold-range": "A pass threshold is not greater than 0 and at most 1.",
    "left-out": "The target form cannot store this.",
}


MAX_LISTED_FIELDS = 50
"""The maximum number of unknown fields that are reported individually."""


def error(code: str, message: str, hint: str = "", *, field: str | None = None, line: int | None = None) -> Problem:
    """Return a problem that prevents the skill from being stored or served."""
    return Problem(code=code, severity="error", message=message, hint=hint, field=field, line=line)


def warning(code: str, message: str, hint: str = "", *, field: str | None = None, line: int | None = None) -> Problem:
    """Return a problem that does not prevent the skill from being used."""
    return Problem(code=code, severity="warning", message=message, hint=hint, field=field, line=line)


def info(code: str, message: str, hint: str = "", *, field: str | None = None, line: int | None = None) -> Problem:
    """Return a problem that is only informational."""
    return Problem(code=code, severity="info", message=message, hint=hint, field=field, line=line)


def too_large_problem(path: str, size: int, cap: int, code: str = "file-too-large") -> Problem:
    """Return the problem of a file over its limit."""
    return error(code, f"{path} is {size:,} bytes; the limit is {cap:,}.", "Make it smaller.", field=path)


def unknown_fields(keys: Sequence[str], line_of: Callable[[str], int | None] = lambda _: None) -> list[Problem]:
    """Return one problem per unknown field, and one for the rest if there are very many."""
    problems = [
        _unknown_field(f"Unknown field {key[:80]!r}; it is kept.", key, line_of) for key in keys[:MAX_LISTED_FIELDS]
    ]
    if len(keys) > MAX_LISTED_FIELDS:
        problems.append(
            _unknown_field(f"{len(keys) - MAX_LISTED_FIELDS:,} more unknown fields; they are kept.", None, line_of)
        )
    return problems


def _unknown_field(message: str, key: str | None, line_of: Callable[[str], int | None]) -> Problem:
    return info("unknown-field", message, field=key, line=line_of(key) if key else None)
