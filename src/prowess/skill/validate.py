"""Validate a package: read it, whatever its form, and check it against a profile."""

from __future__ import annotations

from dataclasses import replace

from prowess.errors import Invalid, Problem
from prowess.lazy_dataclass import dataclass
from prowess.skill.forms.form import CODES as FORM_CODES
from prowess.skill.forms.form import Reading
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.package import Package
from prowess.skill.profiles.profile import CODES as PROFILE_CODES
from prowess.skill.profiles.profile import ProfileName
from prowess.skill.text.document import TEXT_CODES

VALIDATION_CODES: dict[str, str] = {**TEXT_CODES, **FORM_CODES, **PROFILE_CODES}
"""Every code that a report can contain, with its meaning in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationReport:
    """The result of checking a package against a profile: what was read, and every problem, worst first, then by line."""

    reading: Reading
    profile: ProfileName
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        """True if the profile accepts the package: no problem is an error."""
        return not self.errors

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems because of which the profile rejects the package."""
        return tuple(problem for problem in self.problems if problem.severity == "error")


def validate(
    package: Package, profile: ProfileName = "prowess", limits: Limits = DEFAULT_LIMITS, *, remarks: bool = True
) -> ValidationReport:
    """Read a package and check it. Bad content never raises.

    Without `remarks`, some problems that are not errors are not reported. This is enough to know whether the package is accepted.
    """
    # Imported with the first skill that is read. Listing skills from a database or a cache needs no reader.
    from prowess.skill.forms.conversion import read_package
    from prowess.skill.profiles.table import PROFILES

    over = _check_limits(package, limits)
    reading = read_package(package, limits)
    problems = PROFILES[profile].judge(reading, limits, remarks=remarks)
    if profile == "prowess" and (limits.strict or (remarks and reading.document)):
        problems = tuple(_explain_field(problem, strict=limits.strict) for problem in problems)
    return ValidationReport(reading=reading, profile=profile, problems=(*over, *problems))


STRICT_CODES = frozenset({"unknown-field", "field-spelling", "repeated-field", "removed-field"})
"""The problems that a strict workspace refuses: fields that are unknown, misspelt or given twice."""


def _explain_field(problem: Problem, *, strict: bool) -> Problem:
    """Return the problem of an unknown field with the field that was probably meant; in a strict workspace as an error."""
    if problem.code not in (STRICT_CODES if strict else {"unknown-field"}):
        return problem
    from prowess.skill.forms.frontmatter_fields import FRONTMATTER_KEYS
    from prowess.skill.profiles.claude_code import KEYS
    from prowess.suggestions import did_you_mean

    field = problem.field or ""
    meant = did_you_mean(field, FRONTMATTER_KEYS, count=1)
    if strict:
        message = problem.message.replace("; it is kept", "")
        hint = f"{meant} This workspace is strict: correct or remove the field.".strip()
        return replace(problem, severity="error", message=message, hint=hint)
    if field in KEYS:
        return replace(problem, message=f"{field!r} is a field of Claude Code; it is kept.")
    return replace(problem, hint=meant) if meant else problem


def accept(package: Package, limits: Limits = DEFAULT_LIMITS) -> Reading:
    """Return the reading of a package that Prowess can keep, with its skill; raise `Invalid` with every problem otherwise."""
    report = validate(package, "prowess", limits, remarks=False)
    if report.ok and report.reading.skill is not None:
        return replace(report.reading, accepted=limits)
    raise rejection(validate(package, "prowess", limits))


def rejection(report: ValidationReport) -> Invalid:
    """Return the error that says why a package is not accepted."""
    first, others = report.errors[0], len(report.errors) - 1
    more = f" (and {others} more)" if others else ""
    where = f" (line {first.line})" if first.line else ""
    name = report.reading.package.name
    message = f"{repr(name) if name else 'The skill'} does not pass the {report.profile} profile: {first.message}"
    return Invalid(f"{message}{where}{more}", hint=first.hint, problems=report.problems)


def _check_limits(package: Package, limits: Limits) -> tuple[Problem, ...]:
    try:
        package.check(limits)
    except Invalid as refused:
        return (Problem(code="over-limit", severity="error", message=refused.message, hint=refused.hint),)
    return ()
