"""What Prowess itself asks of a skill it keeps: that it can be named, described and served, and hides nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from prowess.errors import Problem
from prowess.skill.forms.form import Reading
from prowess.skill.limits import Limits
from prowess.skill.profiles import rules
from prowess.skill.profiles.assertions import refused_assertions
from prowess.skill.profiles.declared_requests import unsendable_requests, unusable_commands
from prowess.skill.profiles.functions import unusable_functions
from prowess.skill.profiles.needs import unreadable_needs, unused_requirements
from prowess.skill.profiles.patterns import refused_patterns
from prowess.skill.profiles.policies import unreadable_policies
from prowess.skill.profiles.profile import Profile
from prowess.skill.profiles.requests import requests
from prowess.skill.profiles.unseen import hidden_text
from prowess.skill.profiles.variables import undeclared_variables

BODY_LINES = 500


def check(reading: Reading, _limits: Limits) -> Iterator[Problem]:
    """Errors that keep it out, and warnings about what other clients stumble over."""
    if any(problem.code == "nul-character" for problem in reading.problems):
        yield rules.error("binary", "The file is not text: it has NUL characters in it.", "Write it as UTF-8 text.")
    if reading.skill is None and not any(problem.severity == "error" for problem in reading.problems):
        yield rules.error("unusable", "Nothing in the package makes a skill.", "Add a SKILL.md with a description.")
    yield from hidden_text(reading)
    yield from refused_patterns(reading)
    yield from refused_assertions(reading)
    yield from undeclared_variables(reading)
    yield from unreadable_policies(reading)
    yield from unreadable_needs(reading)
    yield from unused_requirements(reading)
    yield from unusable_functions(reading)
    yield from unsendable_requests(reading)
    yield from unusable_commands(reading)
    yield from _check_length(reading)
    yield from requests(reading)
    yield from _check_body(reading)


def _check_length(reading: Reading) -> Iterator[Problem]:
    if reading.skill is None:
        return
    lines: rules.Lines = reading.document.lines if reading.document else {}
    for problem in rules.check_description({"description": reading.skill.description}, lines):
        if problem.code == "description-long":
            yield replace(problem, severity="warning", message=problem.message + " Other clients cut or refuse it.")


def _check_body(reading: Reading) -> Iterator[Problem]:
    count = reading.document.body.count("\n") + 1 if reading.document else 0
    if count > BODY_LINES and reading.document:
        yield Problem(
            code="body-long",
            severity="info",
            message=f"The text has {count:,} lines; the open standard recommends fewer than {BODY_LINES}.",
            hint="Move details into files under references/.",
            line=reading.document.body_line,
        )


PROWESS = Profile(
    name="prowess",
    summary="What Prowess keeps and serves: a slug, a description, nothing hidden, nothing broken.",
    check=check,
    severities={"frontmatter-too-large": "error"},
    ceiling="error",
)
