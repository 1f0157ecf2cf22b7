"""The results of reading and writing a form, and the problems that either can report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from prowess.errors import Problem
from prowess.skill.filenames import find_document_path, find_skill_md
from prowess.skill.form_info import FormName
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.model import Skill
from prowess.skill.package import File, Package
from prowess.skill.text.document import Document


@dataclass(frozen=True)
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
        content, most = (file.content if file else b""), self.limits.skill_md_bytes
        if file is not None and len(content) > most:
            return too_large_problem(file.path, len(content), most, "skill-md-too-large")
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """A skill written in some form, and what the form could not express."""

    package: Package
    left_out: tuple[Problem, ...] = ()


CODES: dict[str, str] = {
    "no-skill": "Nothing in the package is a skill in any form that is known.",
    "no-slug": "Nothing gives the skill a name, neither a field nor the folder nor a heading.",
    "skill-md-missing": "The package has the sidecar of a native skill but no SKILL.md.",
    "skill-md-spelling": "SKILL.md is spelt another way; some clients look for exactly SKILL.md.",
    "skill-md-too-large": "SKILL.md is over the size limit and was not read.",
    "file-too-large": "A file that describes the skill is over the size limit and was not read.",
    "body-too-long": "The text that would enter the prompt is over the limit.",
    "body-empty": "There is no text below the frontmatter.",
    "unknown-field": "A field that Prowess has no meaning for; it is kept.",
    "field-spelling": "A field is written in other letters than usual; it is read all the same.",
    "repeated-field": "Two fields mean the same thing; the first one counts and the other is kept.",
    "removed-field": "A field that the form once had and no longer has; it is kept.",
    "wrong-type": "A field has a value of another type than the form asks for.",
    "name-missing": "There is no name; the slug was taken from elsewhere.",
    "name-not-slug": "The name is free text; the slug was made from it.",
    "name-differs-from-folder": "The name is not the one of the folder that the skill lies in.",
    "slug-invalid": "The slug breaks the pattern; another one was made from it.",
    "description-missing": "There is no description, and no text to take one from.",
    "description-from-body": "There is no description, so search and match do not rank the skill. Lists show its first words.",
    "description-differs": "SKILL.md and the sidecar give different descriptions; SKILL.md counts.",
    "missing-file": "A file that the skill names is not in the package.",
    "not-text": "A file that should be text is not UTF-8.",
    "duplicate-artifact": "Two artifacts have the same name and variant; the first one counts.",
    "fallback-cycle": "Artifacts name each other as fallbacks, in a circle.",
    "unknown-fallback": "A fallback names an artifact that does not exist.",
    "dspy-fallback-kind": "The fallback of a dspy_module is not a prompt_template.",
    "dspy-without-fallback": "A dspy_module has no fallback to serve where DSPy is not available.",
    "dspy-content-invalid": "A dspy_module's content is not a JSON object with a template_id.",
    "too-many-artifacts": "There are more artifacts than a skill may have; the rest was not read.",
    "unknown-kind": "An artifact is of a kind that the form does not have.",
    "kind-not-installed": "An artifact is of the kind of a plugin that is not installed; it is kept, and cannot be run.",
    "artifact-invalid": "An artifact's settings cannot be used.",
    "state-blob-unreadable": "A saved state is not base64 of JSON; it is kept but not usable.",
    "sidecar-unreadable": "agents/prowess.yaml cannot be read.",
    "sidecar-unknown-field": "agents/prowess.yaml has a field that does not exist.",
    "sidecar-invalid": "A field of agents/prowess.yaml has an unusable value.",
    "json-unreadable": "A file is not JSON, or JSON that a skill may not use.",
    "json-duplicate-key": "A JSON object has a key twice; the last one counts.",
    "yaml-unreadable": "A file is not YAML, or YAML that a skill may not use.",
    "several-descriptors": "The package has more than one descriptor; the first one was read.",
    "several-functions": "The package has more than one execute file; the first one was read.",
    "function-missing": "A Devai skill has no execute file, or the file that a descriptor's handler names is not there.",
    "implementation-unknown": "The implementation type is none of ts_function, http_call and cli_command.",
    "template-type-unknown": "The template type is neither LLM_JSON_GENERATION nor LLM_REVIEW.",
    "template-config-missing": "A template type is set but template_config is not there.",
    "prompt-id-missing": "A generation does not say which prompt it uses.",
    "prompt-unknown": "The prompt is not in the registry.",
    "rubric-id-missing": "A review does not say which rubric it uses.",
    "rubric-unknown": "The rubric is not in the registry.",
    "output-schema-missing": "A generation has no output schema to be checked against.",
    "output-schema-not-review": "The output schema does not have the shape of a review's result.",
    "prompt-invalid": "A prompt file has no template or no id.",
    "rubric-invalid": "A rubric file has no usable content.",
    "rubric-without-criteria": "A rubric has no criterion.",
    "rubric-duplicate-criterion": "Two criteria of a rubric have the same id.",
    "rubric-criterion-incomplete": "A criterion lacks a field that it must have.",
    "rubric-weight-not-positive": "The weight of a criterion is not a positive number.",
    "rubric-scoring-mode": "The scoring mode is neither binary nor weighted.",
    "rubric-without-threshold": "A weighted rubric has no pass threshold.",
    "rubric-threshold-range": "A pass threshold is not above 0 and up to 1.",
    "left-out": "The form that was written has no place for this.",
}


MAX_LISTED_FIELDS = 50
"""How many unknown fields are reported individually."""


def error(code: str, message: str, hint: str = "", *, field: str | None = None, line: int | None = None) -> Problem:
    """Return a problem that prevents the skill from being stored or served."""
    return Problem(code=code, severity="error", message=message, hint=hint, field=field, line=line)


def warning(code: str, message: str, hint: str = "", *, field: str | None = None, line: int | None = None) -> Problem:
    """Return a problem that does not prevent the skill from being used."""
    return Problem(code=code, severity="warning", message=message, hint=hint, field=field, line=line)


def info(code: str, message: str, hint: str = "", *, field: str | None = None, line: int | None = None) -> Problem:
    """Return a problem that is only worth knowing."""
    return Problem(code=code, severity="info", message=message, hint=hint, field=field, line=line)


def too_large_problem(path: str, size: int, cap: int, code: str = "file-too-large") -> Problem:
    """Return the problem of a file over its limit."""
    return error(code, f"{path} has {size:,} bytes; the limit is {cap:,}.", "Make it smaller.", field=path)


def unknown_fields(keys: Sequence[str], line_of: Callable[[str], int | None] = lambda _: None) -> list[Problem]:
    """Return one problem per unknown field, and one for the rest if there are very many."""
    problems = [
        _unknown_field(f"The field {key[:80]!r} has no meaning here; it is kept.", key, line_of)
        for key in keys[:MAX_LISTED_FIELDS]
    ]
    if len(keys) > MAX_LISTED_FIELDS:
        problems.append(
            _unknown_field(
                f"{len(keys) - MAX_LISTED_FIELDS:,} more fields have no meaning here; they are kept.", None, line_of
            )
        )
    return problems


def _unknown_field(message: str, key: str | None, line_of: Callable[[str], int | None]) -> Problem:
    return info("unknown-field", message, field=key, line=line_of(key) if key else None)
