"""Trigger reports as JUnit XML, which every CI system shows: one suite a skill, one test case a query."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    from prowess.errors import Problem
    from prowess.interfaces.cli.evaluations import Evaluation

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(evaluations: Sequence[Evaluation]) -> bytes:
    """The whole document, the same for the same evaluations."""
    root = ET.Element("testsuites", {"name": "prowess eval triggers", **_counts(evaluations)})
    for evaluation in evaluations:
        slug = evaluation.report.slug
        suite = ET.SubElement(root, "testsuite", {"name": slug, **_counts([evaluation])})
        for outcome in evaluation.report.outcomes:
            case = ET.SubElement(suite, "testcase", classname=slug, name=_text(outcome.case.query))
            if not outcome.ok:
                kind = "missed" if outcome.case.should_trigger else "false-trigger"
                ET.SubElement(case, "failure", type=kind, message=_text(outcome.verdict))
        for problem in _errors(evaluation):
            case = ET.SubElement(suite, "testcase", classname=slug, name=_text(problem.field or "evals"))
            ET.SubElement(case, "error", type=problem.code, message=_text(problem.message))
    ET.indent(root)
    return ET.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def _errors(evaluation: Evaluation) -> list[Problem]:
    return [problem for problem in evaluation.evals.problems if problem.severity == "error"]


def _counts(evaluations: Sequence[Evaluation]) -> dict[str, str]:
    outcomes = [outcome for evaluation in evaluations for outcome in evaluation.report.outcomes]
    failures = sum(not outcome.ok for outcome in outcomes)
    errors = sum(len(_errors(evaluation)) for evaluation in evaluations)
    return {"tests": str(len(outcomes) + errors), "failures": str(failures), "errors": str(errors)}


def _text(text: str) -> str:
    """Text without the characters that XML cannot hold."""
    return _NOT_IN_XML.sub("\ufffd", text)
