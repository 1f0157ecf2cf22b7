"""What docs/templates.md says that a template may use is there, and the limits are the ones that it gives."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from prowess.errors import Invalid
from prowess.prompts.worker import DEFAULT_RENDER_LIMITS
from prowess.skill import template as template_depth
from prowess.skill.template import BUILT_IN_NAMES, MAX_TEMPLATE_BYTES

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "templates.md").read_text()


def listed(row: str) -> list[str]:
    """The words of one row of the table."""
    (line,) = re.findall(rf"^\| {row} \|(.*)\|$", PAGE, re.MULTILINE)
    return re.findall(r"`(\w+)`", line)


@pytest.mark.parametrize(("row", "template"), [("filters", "{{{{ x | {} }}}}"), ("tests", "{{{{ x is {} }}}}")])
def test_every_filter_and_test_on_the_page_is_known(render, row, template):
    for word in listed(row):
        try:
            render(template.format(word), {"x": "a"})
        except Invalid as error:
            told = {problem.code for problem in error.problems}
        else:
            told = set()
        assert "template-unknown" not in told, word


def test_every_function_on_the_page_is_known(render):
    for word in listed("functions"):
        assert render(f"{{{{ {word} is defined }}}}") == "True"
        assert word in BUILT_IN_NAMES


def test_the_limits_on_the_page_are_the_limits():
    limits = DEFAULT_RENDER_LIMITS
    figures = [
        f"{limits.seconds:g} s",
        f"{limits.memory_bytes >> 20} MiB for",
        f"{limits.steps:,} instructions",
        f"| output | {limits.output_bytes >> 20} MiB",
        f"{MAX_TEMPLATE_BYTES >> 10} KiB",
        f"{template_depth.MAX_DEPTH} chained operators",
        f"as {template_depth.BRACKET_DEPTH};",
        f"{template_depth.MAX_ELIFS} `elif`",
        f"{template_depth.MAX_PARTS:,} tags",
        f"{limits.values_bytes >> 20} MiB as JSON",
        f"{limits.depth} levels",
    ]

    assert [figure for figure in figures if figure not in PAGE] == []
