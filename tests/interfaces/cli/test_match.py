"""`prowess match`: find skills for a message, with output for people and programs, and in batches."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from prowess.interfaces.cli.commands.match import highlight_words, print_recommendations, score_bar
from prowess.match import matcher
from prowess.match.recommendation import Recommendation, decide, format_score

PROWESS = Path(sys.executable).parent / "prowess"
INVOICE = "please extract the totals and due dates from this invoice pdf"
KEYS = {
    "trust",
    "slug",
    "title",
    "description",
    "tags",
    "scope",
    "digest",
    "version",
    "chars",
    "people_only",
    "score",
    "decision",
    "why",
} | {"evidence"}


def test_the_skill_that_fits_is_offered_with_its_reasons(prowess, office):
    ran = prowess("match", INVOICE)
    assert ran.code == 0
    row = next(line for line in ran.out.splitlines() if "invoice-reader" in line)
    assert "offer" in row
    assert "█" in row
    assert "Reads invoices in PDF" in ran.out
    assert "sql-tuner" not in ran.out


def test_json_gives_the_recommendations_best_first(prowess, office):
    results = prowess("match", INVOICE, "--json").json
    assert results[0]["slug"] == "invoice-reader"
    assert set(results[0]) == KEYS
    assert all(result["decision"] in ("offer", "maybe") for result in results)
    assert set(prowess("match", INVOICE, "--json", "--explain").json[0]) == KEYS | {"signals"}


def test_a_message_that_no_skill_fits_gives_none(prowess, office):
    ran = prowess("match", "who won the chess olympiad in the year of the comet")
    assert ran.code == 0
    assert "No matching skill" in ran.out
    assert "--explain" in ran.out
    assert prowess("match", "who won the chess olympiad in the year of the comet", "--json").json == []


def test_explain_shows_fields_and_figures(prowess, office):
    out = prowess("match", INVOICE, "--explain").out
    assert "description:" in out
    assert "signals:" in out


def test_match_says_how_many_skills_are_compared_by_words_only_if_that_may_matter(prowess, write_skill, monkeypatch):
    monkeypatch.setattr(matcher, "PATIENT", 8)
    for number in range(40):
        write_skill(f"skill-{number}")
    said = "{} of 40 skills are compared by words only until their vectors are ready (`prowess doctor --index`).\n"
    assert prowess("match", "zzyzx qwrty").err == said.format(40)
    assert prowess("match", "skill 7", "--explain").err == said.format(40)
    # The first match computed the vectors of those that were likely to fit.
    assert prowess("match", "skill 7", "--explain", "--json").err == said.format(24)
    assert prowess("match", "skill 7").err == ""
    prowess("doctor", "--index")
    assert prowess("match", "skill 7", "--explain").err == ""


def test_a_few_skills_are_compared_by_meaning_at_once(prowess, office):
    assert prowess("match", INVOICE, "--explain").err == ""


def test_explain_shows_the_best_that_was_refused(prowess, office):
    out = prowess("match", "xyzzy plugh", "--explain").out
    assert "No matching skill" in out
    rows = [line for line in out.splitlines() if any(name in line for name in ("invoice-reader", "sql-tuner"))]
    assert all("offer" not in row for row in rows)


@pytest.mark.parametrize("command", ["match", "why"])
def test_an_empty_message_is_a_usage_error(prowess, office, pipe, command):
    for message in ("", "   ", "\n\t"):
        ran = prowess(command, message, "--json")
        assert (ran.code, ran.out) == (2, "")
        assert "Missing message. Give one as an argument or on stdin." in ran.err
    pipe(b" \n")
    assert prowess(command).code == 2


def test_a_place_without_skills_says_how_to_get_some(prowess, workspace):
    ran = prowess("match", "anything at all")
    assert ran.code == 0
    assert "prowess import PATH" in ran.out


def test_a_skill_for_people_only_that_would_fit_is_named_below(prowess, office, write_skill):
    text = "---\nname: release\ndescription: Releases a new version of the website.\ndisable-model-invocation: true\n---\nGo.\n"
    write_skill("release", text)
    note = "For people only: release. Agents are not offered it; `prowess enable` adds it to a prompt."
    assert prowess("match", "release a new version of the website").out.endswith(f"\n\n{note}\n")
    offered = prowess("match", "release a new version of the website", "--json").json
    assert "release" not in [row["slug"] for row in offered]
    assert "release" not in prowess("match", INVOICE).out


def test_the_words_need_no_quotes(prowess, office):
    assert prowess("match", *INVOICE.split(), "--json").json == prowess("match", INVOICE, "--json").json


@pytest.mark.parametrize("args", [(), ("-",)])
def test_a_message_may_be_piped_in(prowess, office, pipe, args):
    pipe(INVOICE.encode())
    assert prowess("match", *args, "--json").json[0]["slug"] == "invoice-reader"


def test_no_message_on_a_terminal_is_a_usage_error(prowess, office, monkeypatch):
    class Terminal:
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal())
    ran = prowess("match")
    assert ran.code == 2
    assert "Missing message" in ran.err


@pytest.mark.parametrize(
    "message",
    [
        "invoice \x00 totals", "\ud800 invoice", "\x1b[31minvoice\x1b]0;owned\x07 pdf", "invoice " * 200_000,
        "invoice\u202eftp", "( AND * NOT \"invoice\" OR NEAR/", "𝕚nvoice İ ß ﬁ", "發票 invoice 請求書",
    ],
    ids=["nul", "surrogate", "escape", "huge", "bidi", "syntax", "odd letters", "cjk"],
)  # fmt: skip
def test_no_message_can_do_harm(prowess, office, message):
    for args in ((), ("--explain",), ("--json",)):
        ran = prowess("match", message, *args)
        assert ran.code == 0, ran.err
        assert not {"\x1b", "\x07", "\x00", "\u202e"} & set(ran.out + ran.err) or "--json" in args


def test_terminal_escapes_of_a_skill_never_reach_the_terminal(prowess, workspace, write_skill):
    write_skill(
        "evil", '---\nname: evil\ndescription: "Reads invoices \\e[31mred\\e]0;owned\\a in PDF totals."\n---\nx\n'
    )
    for args in (("match", INVOICE, "--explain"), ("search", "invoices"), ("search",), ("lint",)):
        ran = prowess(*args)
        assert ran.code == 0
        assert not {"\x1b", "\x07"} & set(ran.out + ran.err)


@pytest.mark.parametrize(("limit", "code"), [("0", 2), ("-1", 2), ("x", 2), ("1", 0), (str(10**30), 0)])
def test_the_limit_is_at_least_one(prowess, office, limit, code):
    for command in ("match", "search"):
        assert prowess(command, INVOICE, "--limit", limit, "--json").code == code


def test_the_limit_bounds_the_results(prowess, office):
    assert len(prowess("match", INVOICE, "--limit", "1", "--json").json) == 1


def test_only_skills_with_the_tags_are_offered(prowess, office):
    assert prowess("match", INVOICE, "--tag", "writing", "--json").json == []
    both = prowess("match", INVOICE, "--tag", "finance", "--tag", "pdf", "--json").json
    assert [result["slug"] for result in both] == ["invoice-reader"]


def test_an_unknown_tag_is_named_with_near_ones(prowess, office):
    for command in ("match", "search"):
        ran = prowess(command, INVOICE, "--tag", "finanse")
        assert ran.code == 0
        assert "'finanse'" in ran.err
        assert "'finance'" in ran.err


def test_context_may_decide_what_the_message_leaves_open(prowess, office):
    ran = prowess("match", "can you do this for me", "--context", "I have an invoice PDF with totals", "--json")
    assert ran.code == 0


def batch(office: Path, *lines: object) -> Path:
    file = office / "messages.jsonl"
    file.write_bytes(b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines))
    return file


def test_a_batch_answers_every_line_in_order(prowess, office):
    file = batch(office, {"id": "a", "text": INVOICE}, {"id": 2, "text": "why is this SQL query slow"}, {"text": ""})
    ran = prowess("match", "--batch", file)
    assert ran.code == 0
    assert [line["id"] for line in ran.lines] == ["a", 2, None]
    first, second, empty = ran.lines
    assert set(first) == {"id", "decision", "results"}
    assert set(first["results"][0]) == {"slug", "score", "decision"}
    assert first["results"][0]["slug"] == "invoice-reader"
    assert first["decision"] == first["results"][0]["decision"] == "offer"
    assert second["results"][0]["slug"] == "sql-tuner"
    assert empty["decision"] == "no"


def test_a_batch_keeps_what_does_not_fit_and_says_no(prowess, office):
    [line] = prowess("match", "--batch", batch(office, {"id": 1, "text": "chess olympiad of invoice"})).lines
    assert all(result["decision"] in ("offer", "maybe", "no") for result in line["results"])
    told = [result["decision"] for result in line["results"]]
    assert line["decision"] == next((one for one in ("offer", "maybe") if one in told), "no")


def test_a_batch_is_limited_for_each_message(prowess, office):
    [line] = prowess("match", "--batch", batch(office, {"id": 1, "text": INVOICE}), "--limit", "1").lines
    assert len(line["results"]) == 1


def test_a_bad_line_is_answered_in_its_place_and_stops_nothing(prowess, office):
    bad = [
        b"{", b"\xff\xfe", b"[1]", b'"text"', {"id": "no-text"}, {"id": 5, "text": 7}, {"id": [], "text": "x"},
        {"id": 6, "text": "x", "tags": [1]}, {"id": 7, "text": "x", "context": 1}, b'{"id": NaN, "text": "x"}',
        b'{"id": 1e999, "text": "x"}', b"[" * 100_000, b'{"id": 1, "text": "' + b"x" * (4 << 20) + b'"}',
    ]  # fmt: skip
    ran = prowess("match", "--batch", batch(office, *bad, b"", {"id": "last", "text": INVOICE}))
    assert ran.code == 1
    assert [line.get("line") for line in ran.lines] == [*range(1, len(bad) + 1), None]
    assert [line["id"] for line in ran.lines if "error" in line][4:6] == ["no-text", 5]
    assert all(line["error"] for line in ran.lines[:-1])
    assert ran.lines[-1]["results"][0]["slug"] == "invoice-reader"
    assert f"{len(bad)} of {len(bad) + 1} lines" in ran.err


def test_a_line_may_bring_its_tags_and_context(prowess, office):
    line = {"id": 1, "text": INVOICE, "tags": ["writing"], "context": "earlier"}
    slugs = {result["slug"] for result in prowess("match", "--batch", batch(office, line)).lines[0]["results"]}
    assert "invoice-reader" not in slugs


def test_a_batch_may_come_from_a_pipe(prowess, office, pipe):
    pipe(b'\xef\xbb\xbf{"id": 1, "text": "slow SQL queries"}\r\n\r\n{"id": 2, "text": "minutes of a meeting"}')
    ran = prowess("match", "--batch", "-", "--explain")
    assert [line["results"][0]["slug"] for line in ran.lines] == ["sql-tuner", "meeting-minutes"]
    assert "signals" in ran.lines[0]["results"][0]


def test_a_batch_that_is_not_there_is_an_error_with_a_remedy(prowess, office):
    ran = prowess("match", "--batch", "nowhere.jsonl")
    assert ran.code == 4
    assert "nowhere.jsonl" in ran.err
    assert prowess("match", "--batch", ".").code == 7
    assert prowess("match", "text", "--batch", "nowhere.jsonl").code == 2


def test_matched_words_are_marked_whatever_their_ending():
    marked = click.style("Invoices", bold=True, underline=True)
    assert highlight_words("Invoices and more", ["invoice"]) == f"{marked} and more"
    assert click.style("發票", bold=True, underline=True) in highlight_words("處理發票的技能", ["發票"])
    assert highlight_words("nothing here", []) == "nothing here"


@pytest.mark.parametrize(("score", "shown"), [(0, "0.00         "), (1, "1.00 ████████"), (0.5, "0.50 ████    ")])
def test_the_bar_has_a_fixed_width(score, shown):
    assert score_bar(score) == shown


def test_a_score_just_below_a_threshold_is_not_rounded_up_to_it(capsys):
    found = Recommendation(
        slug="a", title="A", description="Does it.", tags=(), scope="user", digest="0", score=0.4996, decision="maybe"
    )
    print_recommendations([found])
    assert "0.49 " in capsys.readouterr().out
    scores = [number / 10_000 for number in range(10_001)]
    assert [decide(float(format_score(score))) for score in scores] == [decide(score) for score in scores]
    assert all(abs(float(format_score(score)) - score) < 0.01 for score in scores)


def test_matching_imports_nothing_heavy(office):
    code = (
        "import sys\nfrom prowess.interfaces.cli.main import cli\n"
        "cli.main(['match', 'slow SQL queries'], standalone_mode=False)\n"
        "heavy = {'pydantic', 'sqlalchemy', 'alembic', 'rich', 'yaml', 'asyncio'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    for _ in range(2):
        ran = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ}, check=False
        )
    assert ran.returncode == 0, ran.stderr
    assert "sql-tuner" in ran.stdout


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_the_table_keeps_to_the_width_of_the_terminal(prowess, office, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    out = prowess("match", INVOICE).out
    assert "Reads invoices" in out
    assert max(map(len, out.splitlines())) <= columns
