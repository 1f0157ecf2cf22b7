"""Write an evaluation as one HTML page that opens without a server, and as JUnit XML.

Everything that a model or an author wrote is escaped. The page has no scripts, loads nothing, and forbids both by its
content security policy, so that an output cannot do anything in a browser.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from html import escape
from typing import Any
from xml.etree import ElementTree as ET

from prowess.authoring.evals.plots import Mark, draw_marks, round_ticks
from prowess.authoring.evals.results import CaseResult, EvalRun
from prowess.skill.kinds import JsonObject
from prowess.skill.text.hidden import show_hidden

MAX_SHOWN_CHARS = 20_000
"""Characters of an output on the page; `--json` has all."""

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_WORDS = {True: "pass", False: "fail", None: "error"}
_SIGNS = {True: "✓", False: "✗", None: "!"}
_STYLES = {"better": "good", "worse": "bad", "no difference shown": "plain"}


def html_report(run: EvalRun) -> str:
    """Return the page. The same run gives the same bytes."""
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    summary = run.summary or {"arms": [], "comparisons": [], "cases": 0, "repeats": 1}
    parts = [
        _header(run, summary),
        _tiles(run, summary),
        _comparisons(run, summary["comparisons"]),
        _arms(run, summary["arms"]),
        _grid(run),
        _failures(run),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>Evaluation of {_text(run.skill)}</title><style>{STYLE}</style></head>"
        f"<body><main>{''.join(parts)}</main></body></html>\n"
    )


def _header(run: EvalRun, summary: JsonObject) -> str:
    state = "" if run.state == "done" else f' <span class="badge bad">{_text(run.state)}</span>'
    verdict = (
        '<span class="badge good">all passed</span>' if run.ok else '<span class="badge bad">not all passed</span>'
    )
    facts = (
        ("Version", f"<code>{_text(run.digest[:12])}</code>"),
        ("Cases", f"{summary['cases']}" + (f" × {summary['repeats']}" if summary["repeats"] > 1 else "")),
        ("Models", _text(", ".join(dict.fromkeys(arm.model for arm in run.arms if arm.model)) or "none")),
        ("Finished", _text((run.finished_at or "").replace("T", " ")[:16] + " UTC")),
        ("Run", f"<code>{_text(run.id[:8])}</code>"),
    )
    listed = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts)
    return f"<header><h1>{_text(run.skill)} {verdict}{state}</h1><dl>{listed}</dl></header>"


def _tiles(run: EvalRun, summary: JsonObject) -> str:
    places = [index for index, arm in enumerate(run.arms) if arm.kind == "skill"]
    if not places or not summary["arms"]:
        return ""
    figures = summary["arms"][places[0]]
    more = f"first of {len(places)} models" if len(places) > 1 else "with the skill"
    tiles = (
        ("Pass rate", _percent(figures["pass_rate"]["mean"]), _range(figures["pass_rate"], _percent)),
        ("Mean score", _number(figures["score"]["mean"]), _range(figures["score"], _number)),
        ("Time per answer", _seconds(figures["seconds"]["mean"]), _range(figures["seconds"], _seconds)),
        ("Cost", _dollars(run.cost_usd), f"{figures['cached']} of {figures['answers']} answers from the cache"),
    )
    drawn = "".join(
        f'<div class="tile"><h3>{name}</h3><p class="figure">{value}</p><p class="small">{note}</p></div>'
        for name, value, note in tiles
    )
    return f'<section><p class="small">Figures {more}. Intervals are at 95 %.</p><div class="tiles">{drawn}</div></section>'


def _comparisons(run: EvalRun, comparisons: Sequence[JsonObject]) -> str:
    if not comparisons:
        return ""
    most = max(abs(comparison["score"][end] or 0.0) for comparison in comparisons for end in ("mean", "low", "high"))
    ticks = round_ticks(most)
    marks = [
        Mark(
            label=f"against {run.label(comparison['before'])}",
            value=comparison["score"]["mean"],
            low=comparison["score"]["low"],
            high=comparison["score"]["high"],
            style=_STYLES[comparison["verdict"]],
            note=_signed(comparison["score"]["mean"]),
        )
        for comparison in comparisons
    ]
    plot = draw_marks(
        marks, low=ticks[0], high=ticks[-1], ticks=ticks, show=_signed, title="Difference of the mean score", zero=0.0
    )
    rows = "".join(
        f"<tr><td>{_text(run.label(comparison['after']))}</td><td>{_text(run.label(comparison['before']))}</td>"
        f'<td><span class="badge {_STYLES[comparison["verdict"]]}">{_text(comparison["verdict"])}</span></td>'
        f"<td>{_change(comparison['score'], _signed)}</td><td>{_change(comparison['pass_rate'], _signed)}</td>"
        f"<td>{comparison['score']['p']:.3f}</td><td>{_change(comparison['seconds'], _signed_seconds)}</td><td>{comparison['cases']}</td></tr>"
        for comparison in comparisons
    )
    head = _head("With the skill", "Compared with", "Verdict", "Score", "Pass rate", "p", "Time", "Cases")
    return (
        "<section><h2>What the skill changes</h2>"
        '<p class="small">Differences on the same cases. A difference is shown only if its interval excludes zero and a '
        "sign-flip test agrees.</p>"
        f'{plot}<div class="scroll"><table>{head}<tbody>{rows}</tbody></table></div></section>'
    )


def _arms(run: EvalRun, arms: Sequence[JsonObject]) -> str:
    if not arms:
        return ""
    marks = [
        Mark(
            label=run.label(index),
            value=one["pass_rate"]["mean"],
            low=one["pass_rate"]["low"],
            high=one["pass_rate"]["high"],
            style="plain" if run.arms[index].kind == "skill" else "muted",
            note=_percent(one["pass_rate"]["mean"]),
        )
        for index, one in enumerate(arms)
    ]
    plot = draw_marks(marks, low=0.0, high=1.0, ticks=(0.0, 0.25, 0.5, 0.75, 1.0), show=_percent, title="Pass rate")
    rows = "".join(
        f"<tr><td>{_text(run.label(index))}</td><td>{one['passed']}</td><td>{one['failed']}</td><td>{one['errors']}</td>"
        f"<td>{_percent(one['pass_rate']['mean'])} <span class='small'>{_range(one['pass_rate'], _percent)}</span></td>"
        f"<td>{_number(one['score']['mean'])}</td><td>{_seconds(one['seconds']['mean'])}</td>"
        f"<td>{_dollars(one['total_cost_usd'])}</td></tr>"
        for index, one in enumerate(arms)
    )
    head = _head("", "Passed", "Failed", "Errors", "Pass rate", "Score", "Time", "Cost")
    return (
        f"<section><h2>Pass rate</h2>{plot}"
        f'<div class="scroll"><table>{head}<tbody>{rows}</tbody></table></div></section>'
    )


def _grid(run: EvalRun) -> str:
    """Return a table of all cases, with the outcome of each in each arm."""
    cells: dict[str, dict[int, list[CaseResult]]] = {}
    names: dict[str, str] = {}
    for result in run.results:
        cells.setdefault(result.digest, {}).setdefault(result.arm, []).append(result)
        names[result.digest] = result.title or result.case
    rows = "".join(
        f"<tr><td>{_text(names[digest])}</td>{''.join(_cell(found.get(index, [])) for index in range(len(run.arms)))}</tr>"
        for digest, found in cells.items()
    )
    head = _head("Case", *(run.label(index) for index in range(len(run.arms))))
    return f'<section><h2>Cases</h2><div class="scroll"><table>{head}<tbody>{rows}</tbody></table></div></section>'


def _cell(results: Sequence[CaseResult]) -> str:
    signs = "".join(
        f'<span class="sign {_WORDS[result.passed]}" title="{_WORDS[result.passed]}">{_SIGNS[result.passed]}</span>'
        for result in results
    )
    scores = [result.score for result in results if result.score is not None]
    mean = f' <span class="small">{sum(scores) / len(scores):.2f}</span>' if scores else ""
    return f"<td>{signs}{mean}</td>"


def _failures(run: EvalRun) -> str:
    found = [result for result in run.results if run.arms[result.arm].kind == "skill" and result.passed is not True]
    if not found:
        return '<section><h2>Failed cases</h2><p class="small">Every case passed with the skill.</p></section>'
    return f"<section><h2>Failed cases</h2>{''.join(_failure(run, result) for result in found)}</section>"


def _failure(run: EvalRun, result: CaseResult) -> str:
    verdicts = "".join(
        f'<li><span class="sign {_WORDS[bool(verdict["passed"])]}">{_SIGNS[bool(verdict["passed"])]}</span> '
        f"{_text(verdict['description'])}{_evidence(verdict)}</li>"
        for verdict in result.verdicts
    )
    error = f'<p class="error">{_text(result.error)}</p>' if result.error else ""
    output = f"<pre>{_text(_shorten(result.output))}</pre>" if result.output else '<p class="small">No output.</p>'
    again = f" · repeat {result.repeat}" if result.repeat > 1 else ""
    word = _WORDS[result.passed]
    return (
        f'<details><summary><span class="sign {word}">{_SIGNS[result.passed]}</span> {_text(result.title or result.case)}'
        f' <span class="small">{_text(run.label(result.arm))}{again} · score {_number(result.score)}</span></summary>'
        f"{error}<ul>{verdicts}</ul>{output}</details>"
    )


def _evidence(verdict: JsonObject) -> str:
    text = verdict.get("error") or verdict.get("evidence") or ""
    return f'<br><span class="small">{_text(str(text))}</span>' if text else ""


def _head(*names: str) -> str:
    return f"<thead><tr>{''.join(f'<th>{_text(name)}</th>' for name in names)}</tr></thead>"


def _text(text: str) -> str:
    # Hidden characters could reorder the text around them.
    return escape(show_hidden(text))


def _shorten(text: str) -> str:
    left = len(text) - MAX_SHOWN_CHARS
    return text if left <= 0 else f"{text[:MAX_SHOWN_CHARS]}\n… {left:,} more characters"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _seconds(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value * 1000:.0f} ms" if abs(value) < 1 else f"{value:.1f} s"


def _dollars(value: float | None) -> str:
    return "–" if value is None else f"${value:.4f}"


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{value:+.2f}" if value else "0"


def _signed_seconds(value: float | None) -> str:
    return _seconds(value) if value is None or value < 0 else f"+{_seconds(value)}"


def _range(interval: JsonObject, show: Any) -> str:
    if interval["low"] is None or interval["high"] is None:
        return "too few cases for an interval"
    return f"{show(interval['low'])} to {show(interval['high'])}"


def _change(interval: JsonObject, show: Any) -> str:
    if interval["low"] is None:
        return show(interval["mean"])
    return f"{show(interval['mean'])} <span class='small'>[{show(interval['low'])}, {show(interval['high'])}]</span>"


def junit_report(run: EvalRun) -> bytes:
    """Return a JUnit XML document with one suite for each model with the skill: what fails without it is no fault.

    It has no timestamps, so the same run gives the same bytes.
    """
    tested = [result for result in run.results if run.arms[result.arm].kind == "skill"]
    root = ET.Element("testsuites", {"name": f"prowess eval run {run.skill}", **_counts(tested)})
    for index, arm in enumerate(run.arms):
        if arm.kind != "skill":
            continue
        own = [result for result in run.results if result.arm == index]
        suite = ET.SubElement(root, "testsuite", {"name": _xml_text(arm.label), **_counts(own)})
        for one in own:
            name = one.title or one.case
            name = f"{name} #{one.repeat}" if one.repeat > 1 else name
            case = ET.SubElement(
                suite, "testcase", classname=run.skill, name=_xml_text(name), time=f"{one.seconds:.3f}"
            )
            if one.passed is None:
                ET.SubElement(case, "error", type=one.error_code or "error", message=_xml_text(one.error))
            elif not one.passed:
                unmet = [verdict for verdict in one.verdicts if not verdict["passed"]]
                wrong = [f"{verdict['description']}: {verdict['evidence']}" for verdict in unmet]
                failure = ET.SubElement(case, "failure", type="check", message=_xml_text(one.error or "; ".join(wrong)))
                failure.text = _xml_text(one.output)
    ET.indent(root)
    return ET.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def _counts(results: Sequence[CaseResult]) -> dict[str, str]:
    failed = sum(result.passed is False for result in results)
    errors = sum(result.passed is None for result in results)
    return {"tests": str(len(results)), "failures": str(failed), "errors": str(errors)}


def _xml_text(text: str) -> str:
    """Replace the characters that XML 1.0 does not allow, even as escapes."""
    return _NOT_IN_XML.sub("\ufffd", text)


STYLE = """
:root{--bg:#fbfbfa;--panel:#fff;--line:#e4e4e0;--text:#1d1d1b;--soft:#6b6b66;--accent:#2f5fd0;--good:#1a7f4b;--bad:#c0362c;
--warn:#9a6700;--goodbg:#e3f4ea;--badbg:#fbe6e4;--plainbg:#ececea}
@media (prefers-color-scheme:dark){:root{--bg:#161615;--panel:#1f1f1d;--line:#363633;--text:#ececea;--soft:#a3a39c;
--accent:#7da2f5;--good:#5cc98d;--bad:#f08a80;--warn:#e0b04a;--goodbg:#173425;--badbg:#45201c;--plainbg:#2c2c2a}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--text);font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:960px;margin:0 auto;padding:32px 20px 64px}
h1{font-size:26px;margin:0 0 12px;display:flex;gap:12px;align-items:center;flex-wrap:wrap;letter-spacing:-.01em}
h2{font-size:18px;margin:0 0 8px}
h3{font-size:13px;font-weight:600;color:var(--soft);margin:0}
section{background:var(--panel);border:1px solid var(--line);border-radius:10px;padding:20px;margin-top:20px}
dl{display:flex;flex-wrap:wrap;gap:8px 32px;margin:0}
dt{font-size:12px;color:var(--soft)}
dd{margin:0;overflow-wrap:anywhere}
code,pre{font-family:ui-monospace,SFMono-Regular,Menlo,monospace;font-size:13px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(170px,1fr));gap:12px;margin-top:8px}
.tile{border:1px solid var(--line);border-radius:8px;padding:12px 14px}
.figure{font-size:26px;font-weight:600;margin:2px 0;font-variant-numeric:tabular-nums}
.small{font-size:13px;color:var(--soft);margin:0}
.badge{font-size:12px;font-weight:600;border-radius:20px;padding:2px 10px;white-space:nowrap;background:var(--plainbg);
letter-spacing:0}
.badge.good{background:var(--goodbg);color:var(--good)}
.badge.bad{background:var(--badbg);color:var(--bad)}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;margin-top:12px;font-size:14px;font-variant-numeric:tabular-nums}
th{text-align:left;font-size:12px;font-weight:600;color:var(--soft);padding:6px 12px 6px 0;border-bottom:1px solid var(--line)}
td{padding:7px 12px 7px 0;border-bottom:1px solid var(--line);vertical-align:top}
tbody tr:last-child td{border-bottom:0}
.sign{display:inline-block;width:20px;height:20px;line-height:20px;border-radius:5px;text-align:center;font-weight:700;
font-size:12px;margin-right:3px}
.sign.pass{background:var(--goodbg);color:var(--good)}
.sign.fail{background:var(--badbg);color:var(--bad)}
.sign.error{background:var(--plainbg);color:var(--warn)}
details{border-top:1px solid var(--line);padding:10px 0}
details:first-of-type{border-top:0}
summary{cursor:pointer}
summary:focus-visible{outline:2px solid var(--accent);outline-offset:3px;border-radius:4px}
ul{list-style:none;padding:0;margin:10px 0}
li{margin:6px 0}
pre{background:var(--bg);border:1px solid var(--line);border-radius:8px;padding:12px;margin:8px 0 0;white-space:pre-wrap;
overflow-wrap:anywhere;max-height:420px;overflow:auto}
.error{color:var(--bad);margin:8px 0}
svg{width:100%;height:auto;display:block;margin-top:8px}
svg text{fill:var(--text);font-size:13px}
svg .label{text-anchor:end}
svg .tick{fill:var(--soft);text-anchor:middle;font-size:12px}
svg .note{font-weight:600;font-variant-numeric:tabular-nums}
svg .grid{stroke:var(--line)}
svg .zero{stroke:var(--soft);stroke-width:1.5}
svg .interval{stroke-width:3;stroke:var(--accent)}
svg .cap{stroke-width:2;stroke:var(--accent)}
svg .dot{fill:var(--accent);stroke:var(--panel);stroke-width:2}
svg .muted{stroke:var(--soft)}
svg .dot.muted{fill:var(--soft);stroke:var(--panel)}
svg .good{stroke:var(--good)}
svg .dot.good{fill:var(--good);stroke:var(--panel)}
svg .bad{stroke:var(--bad)}
svg .dot.bad{fill:var(--bad);stroke:var(--panel)}
@media print{section{break-inside:avoid}pre{max-height:none}}
"""
