"""Rendering: what comes out of a template and its values, and what is said where nothing can."""

from __future__ import annotations

import asyncio
import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prowess.errors import Invalid, RunFailed
from prowess.prompts.renderer import WorkerRenderer
from prowess.prompts.worker import RenderLimits
from prowess.skill.template import MAX_TEMPLATE_BYTES
from prowess.threads import share_threads

SECRET = "hunter2-is-a-value"


def test_values_stand_where_the_template_has_their_names(render):
    template = "{{ who }}:{% for claim in claims %} {{ loop.index }}. {{ claim.text | upper }}{% endfor %}"

    text = render(template, {"who": "Ilsabet", "claims": [{"text": "tall"}, {"text": "short"}]})

    assert text == "Ilsabet: 1. TALL 2. SHORT"


def test_mustache_templates_have_sections_and_their_opposites(render):
    template = "{{topic}}:{{#notes}} - {{.}}{{/notes}}{{^notes}} nothing{{/notes}} {{author.name}}"

    assert render(template, {"topic": "T", "notes": ["a", "b"], "author": {"name": "N"}}, "mustache") == "T: - a - b N"
    assert render(template, {"topic": "T", "notes": [], "author": {"name": "N"}}, "mustache") == "T: nothing N"


def test_a_section_whose_name_was_not_given_is_left_out(render):
    assert render("a{{#more}} {{more}}{{/more}}{{^more}} b{{/more}}", {}, "mustache") == "a b"


@pytest.mark.parametrize("syntax", ["jinja", "mustache"])
def test_text_enters_as_it_is_because_prompts_are_not_html(render, syntax):
    assert render("{{ x }}", {"x": "<b>\"Tom\" & 'Ann'</b> {{ x }}"}, syntax) == "<b>\"Tom\" & 'Ann'</b> {{ x }}"


def test_what_is_not_text_enters_a_mustache_template_as_json(render):
    values = {"a": {"k": [True, None, 1.5, "ü"]}, "b": None, "c": False, "d": 7}

    assert render("{{a}}|{{b}}|{{c}}|{{d}}", values, "mustache") == '{"k": [true, null, 1.5, "ü"]}||false|7'


def test_names_that_mean_something_to_python_are_names_like_others(render):
    assert render("{{ self }}{{ template_name }}{{ values }}", {"self": 1, "template_name": 2, "values": 3}) == "123"


def test_values_are_not_changed_by_what_a_template_does_to_them(render):
    values = {"bag": {"k": [1, 2]}}
    before = copy.deepcopy(values)

    render("{{ bag.pop('k') }}{{ bag.update({'x': 1}) }}", values)

    assert values == before


@pytest.mark.parametrize(
    ("template", "syntax", "name", "line"),
    [
        ("Dear\n{{ name }}", "jinja", "`name`", 2),
        ("{{ user.name }}", "jinja", "`user.name`", 1),
        ("é\n\n{{ user.address.street }}", "jinja", "`user.address.street`", 3),
        ("{% for x in things %}{% endfor %}", "jinja", "`things`", 1),
        ("{% if absent %}{% endif %}", "jinja", "`absent`", 1),
        ("é\n{{ name }}", "mustache", "`{{ name }}`", 2),
        ("{{#user}}\n{{user.name}}{{/user}}", "mustache", "`{{user.name}}`", 2),
        ("{{user.keys}}", "mustache", "`{{user.keys}}`", 1),
    ],
)
def test_what_was_not_given_is_named_with_its_line(render, template, syntax, name, line):
    with pytest.raises(Invalid) as caught:
        render(template, {"user": {"id": 1}}, syntax)

    (problem,) = caught.value.problems
    assert (problem.code, problem.line) == ("template-undefined", line)
    assert name in problem.message


def test_the_hint_says_which_inputs_a_template_takes(render):
    with pytest.raises(Invalid) as caught:
        render("{{ b }}{{ a }}{% set c = 1 %}{{ c }}", {})

    assert caught.value.hint == "The template uses `a`, `b`."


def test_a_method_of_a_value_is_not_printed(render):
    with pytest.raises(Invalid, match="method") as caught:
        render("{{ order.items }}", {"order": {}})

    assert caught.value.problems[0].code == "template-undefined"
    assert render("{{ order.items }}", {"order": {"items": "<built-in method "}}) == "<built-in method "


@pytest.mark.parametrize(
    ("template", "syntax", "code", "line"),
    [
        ("a\n{{ b c }}", "jinja", "template-syntax", 2),
        ("{% if x %}", "jinja", "template-syntax", 1),
        ("\n{{#a}}", "mustache", "template-syntax", 2),
        ("{{/a}}", "mustache", "template-syntax", 1),
        ("{{#a}}{{#b}}{{/a}}{{/b}}", "mustache", "template-syntax", 1),
        ("{{=a=}}", "mustache", "template-syntax", 1),
        ("{{> other}}", "mustache", "template-syntax", 1),
        ("{% include 'other' %}", "jinja", "template-include", 1),
        ("{% extends 'other' %}", "jinja", "template-include", 1),
        ("{% from 'other' import x %}", "jinja", "template-include", 1),
        ("{{ 1 | nonsense }}", "jinja", "template-unknown", 1),
        ("{{ 1 is nonsense }}", "jinja", "template-unknown", 1),
        ("{{ nonsense() }}", "jinja", "template-unknown", 1),
        ("{{ debug() }}", "jinja", "template-unknown", 1),
        ("{{ 1 + 'a' }}", "jinja", "template-value", 1),
    ],
)
def test_a_faulty_template_is_refused_with_the_line_of_its_fault(render, template, syntax, code, line):
    with pytest.raises(Invalid) as caught:
        render(template, {}, syntax)

    (problem,) = caught.value.problems
    assert (problem.code, problem.line, problem.severity) == (code, line, "error")
    assert problem.hint


@pytest.mark.parametrize(
    "template",
    [
        "{{ s + 1 }}",
        "{{ s / 0 }}",
        "{{ n / 0 }}",
        "{{ s | int }}",
        "{{ '%d' | format(s) }}",
        "{{ ('%d' ~ s) | format(s) }}",
        "{{ s() }}",
        "{{ s.nope() }}",
        "{{ d[s] }}",
        "{{ d[s].x }}",
        "{% include s %}",
        "{% import s as x %}",
        "{% extends s %}",
        "{{ [1] | map(s) | list }}",
        "{{ [1] | select(s) | list }}",
        "{{ [1] | map(attribute=s) | list | join }}{{ nope }}",
        "{{ d | attr(s) }}",
        "{{ range(s) }}",
        "{{ s | round }}",
        "{{ s | sum }}",
        "{{ s | batch(s) }}",
        "{{ s | indent(s) }}",
        "{{ 1 | default(s) }}{{ nope }}",
        "{{ d.get(s).x }}",
        "{{ d.pop(s) }}",
        "{{ d.fromkeys(n) }}",
        "{{ dict(s) }}",
        "{{ s | tojson(s) }}",
        "{% set d.x = s %}",
        "{% for a, b in [s] %}{% endfor %}",
    ],
)
def test_no_error_holds_a_value(render, template):
    with pytest.raises(Invalid) as caught:
        render(template, {"s": SECRET, "n": 7_391_028, "d": {"k": SECRET}})

    told = f"{caught.value} {caught.value.hint} {caught.value.problems} {caught.value.__cause__!r}"
    assert SECRET not in told
    assert "7391028" not in told


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), b"bytes", {1: "a"}, {"a": {None: 1}}, {1, 2}, object(), "\ud800", 10**5000, [[b""]]],
    ids=lambda value: type(value).__name__,
)
def test_values_that_are_not_json_are_refused_by_the_name_of_the_input(render, value):
    with pytest.raises(Invalid, match="`odd`") as caught:
        render("x", {"fine": 1, "odd": value})

    assert [problem.code for problem in caught.value.problems] == ["template-values"]


def test_values_that_hold_themselves_are_refused(render):
    circle: list[object] = []
    circle.append(circle)
    shared: list[object] = ["x"]
    for _ in range(60):
        shared = [shared, shared]

    for value in (circle, [circle, circle], shared):
        with pytest.raises(Invalid):
            render("x", {"odd": value})


def test_the_limits_on_sizes_are_told_with_their_numbers(render):
    with pytest.raises(Invalid, match="262,144") as template:
        render("x" * (MAX_TEMPLATE_BYTES + 1))
    with pytest.raises(Invalid, match="4,194,304"):
        render("x", {"a": "x" * 5_000_000})
    with pytest.raises(Invalid, match="4,194,304"):
        render("x", {"a": [0] * 5_000_000})
    with pytest.raises(RunFailed, match="1,048,576"):
        render("{{ a }}{{ a }}", {"a": "ü" * 300_000})
    with pytest.raises(Invalid, match="64 levels"):
        render("x", {"a": json.loads("[" * 100 + "]" * 100)})

    assert template.value.problems[0].code == "template-long"


def test_sizes_just_within_the_limits_are_rendered(render):
    assert render("x" * MAX_TEMPLATE_BYTES) == "x" * MAX_TEMPLATE_BYTES
    assert render("{{ a }}", {"a": "x" * (1 << 20)}) == "x" * (1 << 20)
    assert render("{{ a | length }}", {"a": ["x" * 1000] * 4000}) == "4000"
    assert render("{{ a | length }}", {"a": [0] * 1_300_000}) == "1300000"
    assert render("ok", {"a": json.loads("[" * 63 + "]" * 63)}) == "ok"


def test_many_at_once_each_get_their_own_text(renderer):
    async def all_of_them():
        return await asyncio.gather(*(renderer.render("{{ n }}-{{ n }}", {"n": n}) for n in range(200)))

    assert asyncio.run(all_of_them()) == [f"{n}-{n}" for n in range(200)]


def test_a_fault_among_many_is_told_to_the_one_who_made_it(renderer):
    async def some_of_them():
        asked = [renderer.render("{{ n }}", {"n": n} if n % 3 else {}) for n in range(30)]
        return await asyncio.gather(*asked, return_exceptions=True)

    answers = asyncio.run(some_of_them())

    assert [type(answer) for answer in answers] == [str if n % 3 else Invalid for n in range(30)]


def test_nobody_waits_for_all_renderings_of_another_organization():
    async def many() -> list[str]:
        renderer, ended = WorkerRenderer(RenderLimits(workers=1)), list[str]()

        def render(organization: str) -> asyncio.Task[None]:
            async def work() -> None:
                await renderer.render("{{ n }}", {"n": 1})
                ended.append(organization)

            with share_threads(f"{organization}\x00ann\x00ann"):
                return asyncio.create_task(work())

        await asyncio.gather(*[render("acme") for _ in range(9)], render("globex"))
        await renderer.close()
        return ended

    assert asyncio.run(many()).index("globex") <= 2


def test_a_renderer_may_be_used_again_after_it_was_closed():
    async def twice(renderer):
        first = await renderer.render("a", {})
        await renderer.close()
        second = await renderer.render("b", {})
        await renderer.close()
        return first + second

    assert asyncio.run(twice(WorkerRenderer(RenderLimits(workers=1)))) == "ab"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)  # fmt: skip


@settings(max_examples=60)
@given(value=JSON)
def test_any_json_reaches_the_template_unchanged(renderer, value):
    text = asyncio.run(renderer.render("{{ x | tojson }}", {"x": value}))

    assert json.loads(text) == value
