"""Intent patterns that matching cannot run: regular expressions that RE2 refuses, or that would cost too much."""

from __future__ import annotations

from collections.abc import Iterator

from prowess.errors import Problem
from prowess.skill.forms.draft import meaning
from prowess.skill.forms.form import Reading
from prowess.skill.limits import MOST_PATTERNS
from prowess.skill.linear_regex import RegexRefused, compile_regex
from prowess.skill.profiles import rules
from prowess.skill.text.fields import as_list
from prowess.skill.text.hidden import shown_source

FIELD = "intent_patterns"
LONGEST_PATTERN = 1_000
LARGEST_PROGRAM = 10_000
"""The most steps of all patterns of a skill together: each may be taken once for every character of a message."""

_HINT = (
    "Write it in the syntax of RE2, which has no look-around and no back-references; "
    "to match a text literally, write it in trigger_phrases."
)
_SHORTER = "Say it in fewer and shorter patterns, or write the phrases in trigger_phrases."


def refused_patterns(reading: Reading) -> Iterator[Problem]:
    """One problem for each pattern that is refused, where it stands, and one if there are too many."""
    patterns = reading.skill.intent_patterns if reading.skill else ()
    if not patterns:
        return
    key, line = _place(reading, patterns)
    if len(patterns) > MOST_PATTERNS:
        message = f"There are {len(patterns):,} intent patterns; {MOST_PATTERNS} are the most."
        yield rules.error("intent-patterns-many", message, _SHORTER, key, line)
    spent = 0
    for pattern in dict.fromkeys(patterns[:MOST_PATTERNS]):
        shown = shown_source(pattern)
        if len(pattern) > LONGEST_PATTERN:
            message = f"The intent pattern {shown} has {len(pattern):,} characters; {LONGEST_PATTERN:,} are the most."
            yield rules.error("intent-pattern-long", message, _SHORTER, key, line)
            continue
        size, reason = _compiled(pattern)
        spent += size
        if reason:
            yield rules.error("intent-pattern", f"RE2 refuses the intent pattern {shown}: {reason}.", _HINT, key, line)
        elif spent > LARGEST_PROGRAM >= spent - size:
            message = f"With {shown} the intent patterns come to {spent:,} steps; {LARGEST_PROGRAM:,} are the most."
            hint = "Repeat less: a number in braces counts as often as it says, and a class such as \\pL is large."
            yield rules.error("intent-pattern-costly", message, hint, key, line)


def _compiled(pattern: str) -> tuple[int, str]:
    """How many steps RE2 makes of a pattern, or why it refuses it."""
    try:
        return compile_regex(pattern, case_sensitive=False).steps, ""
    except RegexRefused as reason:
        return 0, str(reason)


def _place(reading: Reading, patterns: tuple[str, ...]) -> tuple[str, int | None]:
    """The key that gives the patterns, and its line, where that is in the frontmatter."""
    document = reading.document
    for key, value in document.fields.items() if document else ():
        nested = rules.as_mapping(value) if key == "metadata" else None
        given = value if meaning(key) == FIELD else (nested or {}).get(FIELD)
        if given is not None and as_list(given) == patterns and document:
            return key, document.lines.get(key)
    return FIELD, None
