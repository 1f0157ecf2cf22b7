"""Intent patterns: what RE2 refuses, or what would cost too much to run, is refused when a skill is checked."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest
import re2

from prowess.errors import Invalid, Problem
from prowess.skill.package import Package
from prowess.skill.profiles import PROFILE_NAMES, ProfileName
from prowess.skill.profiles.declarations import check_patterns
from prowess.skill.validate import accept, validate


def pack(*patterns: str, **files: str) -> Package:
    head = f"---\nname: notes\ndescription: Takes notes.\nintent_patterns: {json.dumps(patterns)}\n---\nBody.\n"
    return Package.of_texts("notes", {"SKILL.md": head, **files})


def errors(*patterns: str) -> list[Problem]:
    return list(validate(pack(*patterns)).errors)


@pytest.mark.parametrize(
    "pattern",
    [
        "take (some )?notes",
        r"\b(resize|scale)\b.*\b(image|photo)s?\b",
        r"(?i)minutes of \d+ meetings",
        r"\p{Han}+ の",
        "(a+)+$",
        "(a|aa)+$",
        "(.*)*x",
        "([a-z]+)*[0-9]",
        "(x+x+)+y",
    ],
)
def test_what_runs_in_linear_time_is_accepted_and_harmless(pattern: str) -> None:
    assert errors(pattern) == []
    # A backtracking engine would not come to an end with some of these.
    re2.search(pattern, "a" * 20_000 + "!" + "x" * 20_000)


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("(?<=not )fair", "`(?<=`"),
        ("(?<!not )fair", "`(?<!`"),
        ("fair(?= play)", "`(?=`"),
        (r"(a)\1", r"`\1`"),
        ("(?P=name)", "`(?P`"),
        ("c++ code", "`++`"),
        ("(unfinished", "missing )"),
        ("[unfinished", "missing ]"),
        ("a{1001}", "`{1001}`"),
        ("((a{50}){50}){50}", "repetition"),
        ("(?>atomic)", "`(?>`"),
    ],
)
def test_what_re2_refuses_is_refused_with_the_reason_and_a_way_out(pattern: str, told: str) -> None:
    [problem] = errors("take notes", pattern)
    assert (problem.code, problem.field, problem.line) == ("intent-pattern", "intent_patterns", 4)
    assert f"`{pattern}`" in problem.message
    assert told in problem.message
    assert "look-around" in problem.hint
    assert "trigger_phrases" in problem.hint
    with pytest.raises(Invalid, match="is not valid RE2"):
        accept(pack(pattern))


def test_every_refused_pattern_is_told() -> None:
    assert [problem.code for problem in errors("(", "fine", "[", "x" * 1_001)] == [
        "intent-pattern",
        "intent-pattern",
        "intent-pattern-long",
    ]


def test_a_thousand_characters_and_sixty_four_patterns_are_the_most() -> None:
    assert errors("x" * 1_000) == []
    assert [problem.code for problem in errors("x" * 1_001)] == ["intent-pattern-long"]
    assert errors(*(f"word {number}" for number in range(64))) == []
    [problem] = errors(*(f"word {number}" for number in range(65)))
    assert problem.code == "intent-patterns-many"
    assert "65" in problem.message


@pytest.mark.parametrize("patterns", [[".{1000}" * 9], [r"\pL{100}"], [f"[ab].{{30{number}}}z" for number in range(9)]])
def test_patterns_that_make_many_steps_for_every_character_are_refused_once(patterns: list[str]) -> None:
    [problem] = errors(*patterns)
    assert problem.code == "intent-pattern-costly"
    assert "10,000" in problem.message


def test_a_long_or_hidden_pattern_is_shown_short_and_escaped() -> None:
    problem = next(problem for problem in errors("(\u202e" + "y" * 500) if problem.code == "intent-pattern")
    assert "`(\\u{202E}yyy" in problem.message
    assert len(problem.message) < 200


def test_half_a_character_is_refused_and_not_an_exception() -> None:
    reading = validate(pack("fine")).reading
    assert reading.skill is not None
    half = replace(reading, skill=reading.skill.model_copy(update={"intent_patterns": ("\ud800",)}))
    [problem] = check_patterns(half)
    assert problem.code == "intent-pattern"
    assert "\ud800" not in problem.message


def test_the_place_is_the_key_that_gives_the_patterns() -> None:
    under = "---\nname: notes\ndescription: Takes notes.\nmetadata:\n  intent_patterns: ['(']\n---\nBody.\n"
    [problem] = validate(Package.of_texts("notes", {"SKILL.md": under})).errors
    assert (problem.field, problem.line) == ("metadata", 4)
    sidecar = {"agents/prowess.yaml": "intent_patterns: ['[']\n"}
    [problem] = validate(pack("(", **sidecar)).errors
    assert (problem.field, problem.line) == ("intent_patterns", None)


@pytest.mark.parametrize("profile", [name for name in PROFILE_NAMES if name != "prowess"])
def test_other_clients_run_no_patterns_and_do_not_mind(profile: ProfileName) -> None:
    assert not [problem for problem in validate(pack("("), profile).problems if problem.code.startswith("intent")]


def test_a_skill_without_patterns_does_not_load_re2() -> None:
    code = (
        "import sys\n"
        "from prowess.skill.package import Package\n"
        "from prowess.skill.validate import validate\n"
        "text = '---\\nname: notes\\ndescription: Takes notes.\\n---\\nBody.\\n'\n"
        "assert validate(Package.of_texts('notes', {'SKILL.md': text})).ok\n"
        "sys.exit('re2' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
