"""What validation says about the prompt templates of a skill."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Literal

import pytest

from prowess.errors import Invalid
from prowess.skill.package import Package
from prowess.skill.template import TEMPLATE_NAMES
from prowess.skill.validate import accept, validate

PAGE = Path(__file__).resolve().parents[2] / "docs" / "templates.md"
SKILL_MD = "---\nname: checker\ndescription: Checks claims against each other.\n---\n\nCheck.\n"


def package(templates, *, parameters=None, **extra):
    """A skill with these templates, by path or as artifacts."""
    artifacts = [
        {"path": path, "kind": "prompt_template", "name": path.rpartition("/")[2].partition(".")[0], **settings}
        for path, (_, settings) in templates.items()
    ]
    sidecar = {"artifacts": [*artifacts, *extra.get("artifacts", [])]}
    sidecar |= {"parameters": parameters} if parameters else {}
    files = {path: text for path, (text, _) in templates.items()} | extra.get("files", {})
    return Package.of_texts("checker", {"SKILL.md": SKILL_MD, "agents/prowess.yaml": json.dumps(sidecar), **files})


def found(given):
    """Code, field, line and message of what is said about templates."""
    problems = validate(given).problems
    return [(one.code, one.field, one.line) for one in problems if one.code.startswith("template-")]


DECLARED = {"type": "object", "properties": {"entity": {"type": "string"}}}


def test_a_name_that_nothing_declares_is_a_warning():
    given = package({"prompts/check.j2": ("{{ entity }} {{ entty }}", {})}, parameters=DECLARED)

    (problem,) = [one for one in validate(given).problems if one.code.startswith("template-")]

    assert (problem.code, problem.severity, problem.field) == ("template-undeclared", "warning", "prompts/check.j2")
    assert "`entty`" in problem.message
    assert accept(given).skill


def test_a_template_whose_skill_declares_nothing_is_not_asked_to():
    assert found(package({"prompts/check.j2": ("{{ entity }}", {})})) == []


def test_a_schema_of_the_template_declares_too():
    schema = {"type": "object", "properties": {"claims": {"type": "array"}}}
    templates = {"prompts/check.j2": ("{{ entity }}{{ claims }}{{ other }}", {"vars_schema": schema})}

    assert found(package(templates, parameters=DECLARED)) == [("template-undeclared", "prompts/check.j2", None)]


def test_what_earlier_artifacts_give_is_declared_by_their_names():
    templates = {
        "prompts/first-look.j2": ("{{ entity }}", {"ordinal": 1}),
        "prompts/second.j2": ("{{ entity }}{{ first_look }}{{ previous }}", {"ordinal": 2}),
    }

    assert found(package(templates, parameters=DECLARED)) == []


def test_nothing_is_said_after_an_artifact_that_may_give_anything():
    collect = {"path": "code/collect.py", "kind": "code_template", "name": "collect", "ordinal": 1}
    templates = {"prompts/check.j2": ("{{ entity }}{{ claims }}", {"ordinal": 2})}

    given = package(templates, parameters=DECLARED, artifacts=[collect], files={"code/collect.py": "submit({})\n"})

    assert found(given) == []


def test_a_filter_that_does_not_exist_is_a_warning_with_its_line():
    text = "{# |a #}{% raw %}{{ x|b }}{% endraw %}\n{{ entity | uper }}{{ 'x|c' }}{{ (entity | trim) | title }} |d"
    given = package({"prompts/check.j2": (text, {})})

    (problem,) = [one for one in validate(given).problems if one.code.startswith("template-")]

    assert (problem.code, problem.severity, problem.line) == ("template-unknown-filter", "warning", 2)
    assert (problem.message, problem.hint) == (
        "The template uses the filter `uper`, which does not exist.",
        "Did you mean 'upper'?",
    )


def test_a_filter_of_a_block_and_a_test_that_do_not_exist_are_warnings():
    text = "{%- filter uper | trim %}{{ entity }}{% endfilter %}\n{% if entity is not defned and entity is in [1] %}is so{% endif %}"

    problems = validate(package({"prompts/check.j2": (text, {})})).problems

    assert [(one.code, one.line, one.hint) for one in problems if one.code.startswith("template-")] == [
        ("template-unknown-filter", 1, "Did you mean 'upper'?"),
        ("template-unknown-test", 2, "Did you mean 'defined'?"),
    ]


def test_functions_and_methods_that_do_not_exist_are_warnings_with_their_lines():
    text = (
        "{% macro bold(text) %}**{{ text }}**{% endmacro %}{{ bold(entity) }}{% for one in range(3) %}{{ loop.cycle(1, 2) }}\n"
        "{% if not rang(2) %}{{ entity.upper() }}{% endif %}{% endfor %}{{ {'a': 1}.items() | list }} {{ entity . nosuch () }}"
    )

    problems = validate(package({"prompts/check.j2": (text, {})})).problems

    assert [(one.code, one.line, one.hint) for one in problems if one.code.startswith("template-")] == [
        ("template-unknown-function", 2, "Did you mean 'range'?"),
        ("template-unknown-method", 2, "Use the filter: `| upper`."),
        ("template-unknown-method", 2, "Use a filter, or a method of a Python list or dict."),
    ]


@pytest.mark.parametrize("what", ["filter", "test", "function"])
def test_validation_knows_the_names_of_the_documentation(what: Literal["filter", "test", "function"]):
    row = next(line for line in PAGE.read_text().splitlines() if line.startswith(f"| {what}s |"))

    assert set(re.findall(r"`(\w+)`", row)) == TEMPLATE_NAMES[what]


@pytest.mark.parametrize("schema", [{"$ref": "#/$defs/x"}, {"allOf": [DECLARED]}, {"patternProperties": {".": {}}}])
def test_nothing_is_said_where_a_schema_does_not_tell_its_names(schema):
    assert found(package({"prompts/check.j2": ("{{ entity }}", {})}, parameters=schema)) == []


@pytest.mark.parametrize(
    ("path", "template", "line"),
    [
        ("prompts/check.j2", "One\n{{ entity entity }}", 2),
        ("prompts/check.j2", "{% if entity %}", 1),
        ("prompts/check.mustache", "\n\n{{#entity}}", 3),
        ("prompts/check.mustache", "{{> partial}}", 1),
        ("prompts/check.j2", "{{ " + "-" * 5_000 + "1 }}", 1),
    ],
)
def test_a_template_that_cannot_be_read_is_an_error_and_keeps_the_skill_out(path, template, line):
    given = package({path: (template, {})})

    assert found(given) == [("template-syntax", path, line)]
    with pytest.raises(Invalid):
        accept(given)


def test_more_templates_than_are_read_are_an_error():
    templates = {f"prompts/p{n}.j2": ("x" * 200_000, {}) for n in range(12)}

    assert found(package(templates)) == [("template-long", None, None)]


def test_a_template_over_the_limit_is_an_error():
    assert found(package({"prompts/p.j2": ("x" * 300_000, {})})) == [("template-long", "prompts/p.j2", None)]
