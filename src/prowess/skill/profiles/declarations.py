"""Check the declarations of a skill: assertions, functions, limits, needs, requests, commands and patterns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

from prowess.errors import Invalid, Problem
from prowess.skill.assertion_specs import check_assertions, list_assertions
from prowess.skill.declarations import parse_command, parse_request
from prowess.skill.form_info import form_info
from prowess.skill.forms.form import Reading, warning
from prowess.skill.forms.frontmatter_fields import field_for_key
from prowess.skill.kinds import CliCommand, CodeTemplate, Function, HttpCall
from prowess.skill.limits import MAX_INTENT_PATTERNS
from prowess.skill.linear_regex import RegexRefused, compile_regex
from prowess.skill.needs import MAX_NEED_VALUES, NEED_FORMATS, RUNTIMES, parse_need, read_needs
from prowess.skill.profiles import checks
from prowess.skill.python_source import PLACEHOLDER, PROMPT_SYNTAX, SourceFault, find_source_fault
from prowess.skill.text.fields import as_list
from prowess.skill.text.hidden import quote_source


def check_artifact_assertions(reading: Reading) -> Iterator[Problem]:
    """Yield one problem per invalid assertion, with its artifact and position."""
    for artifact in reading.skill.artifacts if reading.skill else ():
        written = list_assertions(artifact)
        if written:
            name = f"{artifact.name}@{artifact.variant}" if artifact.variant else artifact.name
            yield from check_assertions(written, f"{name}.assertions")


FUNCTION_CODE, CODE_CODE = "function-invalid", "code-template-invalid"


def check_functions(reading: Reading) -> Iterator[Problem]:
    """Yield an error for each function that cannot be called, or a warning if a newer Python might be able to."""
    for artifact in reading.skill.artifacts if reading.skill else ():
        fault = find_function_fault(artifact) if isinstance(artifact, Function) else None
        if fault is not None and isinstance(artifact, Function):
            verb = "Define" if artifact.language == "python" else "Export"
            hint = f"{verb} {artifact.handler}(args, ctx) at the top level of the file."
            where = artifact.path or artifact.name
            yield _source_problem(FUNCTION_CODE, where, fault, "Fix this line." if fault.line else hint)
        elif isinstance(artifact, Function) and artifact.language != "python":
            yield from _check_imports(artifact)


# Types are removed before a function runs.
_IMPORT = re.compile(
    r"""^[ \t]*import[ \t]+(?:(?!type\b)[\w*{][^"';]{0,300}?\bfrom[ \t]*)?(["'])([^"'\n]{1,200})\1""", re.MULTILINE
)
_IMPORT_CHARS = 16 * 1024
"""Where imports are looked for: they stand at the start, and text that only resembles them takes long."""
_MODULES = ("prowess", "inklings", "@devai/skill-runtime")


def _check_imports(function: Function) -> Iterator[Problem]:
    """Yield a warning for each module that a function in TypeScript or JavaScript imports and cannot have."""
    for found in _IMPORT.finditer(function.content[:_IMPORT_CHARS]):
        if found[2] not in _MODULES and not found[2].startswith("node:"):
            where = function.path or function.name
            message = f"{where} imports {quote_source(found[2])}, which a function cannot."
            hint = "A function is one file: it can import `node:` modules, `prowess` and types."
            line = function.content.count("\n", 0, found.start()) + 1
            yield warning(FUNCTION_CODE, message, hint, field=where, line=line)


def find_function_fault(function: Function) -> SourceFault | None:
    """Return the fault of a function of the skill, or None."""
    if not function.content:
        return None
    if function.language == "python":
        return find_source_fault(function.content, function.handler)
    # Only the names are looked for, because nothing here parses JavaScript: what a module exports stands in its text.
    # `$` may be part of a name, so `\b` does not find its ends.
    names = rf"(?<![\w$])(?:{re.escape(function.handler)}|default)(?![\w$])"
    if re.search(r"\bexport\b", function.content) and re.search(names, function.content):
        return None
    return SourceFault(message=f"it does not export a function named {function.handler}")


def _source_problem(code: str, where: str, fault: SourceFault, hint: str) -> Problem:
    if not fault.certain:
        message = f"{where} may not be valid Python: {fault.message}."
        hint = "If it uses syntax of a newer Python, run it to check."
        return warning(code, message, hint, field=where, line=fault.line)
    message = f"{where} cannot run: {fault.message.rstrip('.')}."
    return Problem(code=code, severity="error", message=message, hint=hint, field=where, line=fault.line)


def check_code_templates(reading: Reading) -> Iterator[Problem]:
    """Yield a warning for each code template that cannot run: one that is not Python, or uses what only prompts support.

    The other parts of its skill work.
    """
    for artifact in reading.skill.artifacts if reading.skill else ():
        if not isinstance(artifact, CodeTemplate):
            continue
        where, code, hint = artifact.path or artifact.name, artifact.content, "Fix this line."
        if found := PROMPT_SYNTAX.search(code):
            what = f"it uses {quote_source(found[0])}, which only prompts support"
            fault = SourceFault(message=what, line=code.count("\n", 0, found.start()) + 1)
            hint = "Use {{ name }} or `inputs`, and Python for the rest."
        else:
            fault = find_source_fault(PLACEHOLDER.sub("_", code))
        if fault is None:
            continue
        problem = replace(_source_problem(CODE_CODE, where, fault, hint), severity="warning")
        if not checks.is_whole_file(reading.package, artifact):
            message = f"{problem.message.removesuffix('.')} (line {problem.line} of the script)."
            problem = replace(problem, line=None, message=message)
        yield problem


_POLICY_LIMITS = ("timeout_seconds", "max_cost_usd")
_LOG_FLAGS = ("log_input", "log_output")
POLICY_CODE = "policy-invalid"


def check_policies(reading: Reading) -> Iterator[Problem]:
    """Yield an error for an invalid limit, which would block every run, and a warning for a value that is read as the strictest one."""
    if reading.skill is None:
        return
    policy = reading.skill.policy
    for name in _POLICY_LIMITS:
        if policy.get(name) is not None and not is_limit(policy[name]):
            yield _policy_problem(f"policy.{name}", policy[name], "a number greater than 0", "error")
    if policy.get("requires_approval") not in (None, True, False):
        yield _policy_problem("policy.requires_approval", policy["requires_approval"], "true or false", "warning")
    yield from _check_observability(reading.skill.extra.get("observability"))


def is_limit(value: object) -> bool:
    """Return True for a positive number, or a string with one."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return False
    try:
        # By way of text, so that a number in quotes counts too. NaN fails both comparisons.
        return 0 < float(str(value)) < float("inf")
    except ValueError:
        return False


def _check_observability(written: object) -> Iterator[Problem]:
    if written is None:
        return
    if not isinstance(written, Mapping):
        yield _policy_problem("observability", written, "an object", "warning")
        return
    settings = cast("Mapping[str, Any]", written)
    for name in _LOG_FLAGS:
        if settings.get(name) not in (None, True, False):
            yield _policy_problem(f"observability.{name}", settings[name], "true or false", "warning")
    if settings.get("redact_fields") is not None and not _are_names(settings["redact_fields"]):
        yield _policy_problem("observability.redact_fields", settings["redact_fields"], "a list of names", "warning")


def _are_names(value: object) -> bool:
    listed = cast("list[object]", value) if isinstance(value, list) else [value]
    return all(isinstance(name, str) for name in listed)


def _policy_problem(field: str, value: object, takes: str, severity: Any) -> Problem:
    message = f"Invalid value {str(value)[:40]!r} for {field}."
    return Problem(code=POLICY_CODE, severity=severity, message=message, hint=f"Use {takes}.", field=field)


NEED_CODE = "need-invalid"
UNUSED_CODE = "requirements-unused"
_NEEDS_SHOWN = 5


def check_needs(reading: Reading) -> Iterator[Problem]:
    """Yield a warning for each unreadable value, up to a few per need."""
    if reading.skill is None or not form_info(reading.form).has_needs:
        return
    extra = reading.skill.extra
    if extra.get("runtime") not in (None, *RUNTIMES):
        yield _need_problem("runtime", extra["runtime"], f"one of {', '.join(RUNTIMES)}")
    for name, form in NEED_FORMATS.items():
        unread = parse_need(name, extra.get(name))[1]
        for value in unread[:_NEEDS_SHOWN]:
            yield _need_problem(name, value, f"{form.takes}, at most {MAX_NEED_VALUES}")


def check_requirements(reading: Reading) -> Iterator[Problem]:
    """Yield a warning if a function requires packages in a runtime without packages. Scripts always get theirs."""
    skill = reading.skill
    if skill is None or not any(isinstance(artifact, Function) and artifact.content for artifact in skill.artifacts):
        return
    needs = read_needs(skill)
    if not needs.requirements or any(one.kind == "script" for one in skill.artifacts):
        return
    python = [one for one in skill.artifacts if isinstance(one, Function) and one.content and one.language == "python"]
    if python and needs.runtime == "native":
        return
    named = ", ".join(needs.requirements[:_NEEDS_SHOWN])
    if python:
        message = (
            f"The packages in requirements ({named}) are not installed: the function runs in the "
            "sandbox, which has no packages."
        )
        hint = "Add `runtime: native`, which requires approval, or remove the packages."
    else:
        message = (
            f"The packages in requirements ({named}) are for Python, but the skill has no Python code that uses them."
        )
        hint = "Remove `requirements`."
    yield Problem(code=UNUSED_CODE, severity="warning", message=message, hint=hint, field="requirements")


def _need_problem(field: str, value: object, takes: str) -> Problem:
    message = f"Invalid value {str(value)[:80]!r} in {field}; it is ignored."
    return Problem(code=NEED_CODE, severity="warning", message=message, hint=f"Use {takes}.", field=field)


REQUEST_CODE = "request-invalid"
COMMAND_CODE = "command-invalid"


def check_requests(reading: Reading) -> Iterator[Problem]:
    """Yield a warning for each unreadable request, and for each environment variable that a request uses undeclared."""
    skill = reading.skill
    for artifact in skill.artifacts if skill else ():
        if not isinstance(artifact, HttpCall) or skill is None:
            continue
        try:
            request = parse_request(artifact)
        except Invalid as fault:
            yield _request_problem(artifact, fault.message, fault.hint)
            continue
        for name in request.secrets:
            if name not in read_needs(skill).env:
                yield _request_problem(
                    artifact,
                    f"The request uses the environment variable {name!r}, which is not declared.",
                    f"Add `env: [{name}]`.",
                )


def check_commands(reading: Reading) -> Iterator[Problem]:
    """Yield a warning for each unreadable command."""
    for artifact in reading.skill.artifacts if reading.skill else ():
        if not isinstance(artifact, CliCommand):
            continue
        try:
            parse_command(artifact)
        except Invalid as fault:
            yield _request_problem(artifact, fault.message, fault.hint, code=COMMAND_CODE)


def _request_problem(artifact: HttpCall | CliCommand, message: str, hint: str, code: str = REQUEST_CODE) -> Problem:
    return Problem(code=code, severity="warning", message=message, hint=hint, field=artifact.path or artifact.name)


PATTERN_FIELD = "intent_patterns"
MAX_PATTERN_LENGTH = 1_000
MAX_PATTERN_PROGRAM = 10_000
"""The limit for all patterns of a skill together, in RE2 instructions: each may run once per character of a message."""

_PATTERN_HINT = (
    "Use RE2 syntax, which has no look-around or back-references. To match a phrase literally, use trigger_phrases."
)
_SHORTER_HINT = "Use fewer or shorter patterns, or move phrases to trigger_phrases."


def check_patterns(reading: Reading) -> Iterator[Problem]:
    """Yield one problem per rejected pattern, with its position, and one if there are too many."""
    patterns = reading.skill.intent_patterns if reading.skill else ()
    if not patterns:
        return
    key, line = _find_key(reading, patterns)
    if len(patterns) > MAX_INTENT_PATTERNS:
        message = f"The skill has {len(patterns):,} intent patterns; the limit is {MAX_INTENT_PATTERNS}."
        yield checks.error("intent-patterns-many", message, _SHORTER_HINT, key, line)
    spent = 0
    for pattern in dict.fromkeys(patterns[:MAX_INTENT_PATTERNS]):
        quoted = quote_source(pattern)
        if len(pattern) > MAX_PATTERN_LENGTH:
            message = (
                f"The intent pattern {quoted} has {len(pattern):,} characters; the limit is {MAX_PATTERN_LENGTH:,}."
            )
            yield checks.error("intent-pattern-long", message, _SHORTER_HINT, key, line)
            continue
        size, reason = _program_size(pattern)
        spent += size
        if reason:
            yield checks.error(
                "intent-pattern", f"The intent pattern {quoted} is not valid RE2: {reason}.", _PATTERN_HINT, key, line
            )
        # Only at the pattern that crosses the limit, so that the problem is reported once.
        elif spent > MAX_PATTERN_PROGRAM >= spent - size:
            message = (
                f"The intent patterns up to {quoted} compile to {spent:,} steps; the limit is {MAX_PATTERN_PROGRAM:,}."
            )
            hint = "Lower the repeat counts, and avoid large classes such as \\pL: `x{1000}` counts as 1,000 steps."
            yield checks.error("intent-pattern-costly", message, hint, key, line)


def _program_size(pattern: str) -> tuple[int, str]:
    """Return the number of RE2 instructions of a pattern, or the reason why RE2 rejects it."""
    try:
        return compile_regex(pattern, case_sensitive=False).steps, ""
    except RegexRefused as reason:
        return 0, str(reason)


def _find_key(reading: Reading, patterns: tuple[str, ...]) -> tuple[str, int | None]:
    """Return the frontmatter key that holds the patterns, and its line, if it is in the frontmatter."""
    document = reading.document
    for key, value in document.fields.items() if document else ():
        nested = checks.as_mapping(value) if key == "metadata" else None
        declared = value if field_for_key(key) == PATTERN_FIELD else (nested or {}).get(PATTERN_FIELD)
        if declared is not None and as_list(declared) == patterns and document:
            return key, document.lines.get(key)
    return PATTERN_FIELD, None
