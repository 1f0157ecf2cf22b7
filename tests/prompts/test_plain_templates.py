"""Plain templates, which are rendered in this process: they give what a worker gives, and nothing else is rendered there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.prompts.test_hostile_templates import HOSTILE

from prowess.errors import Invalid, ProwessError, RunFailed, Unavailable
from prowess.prompts.plain_renderer import MAX_TEMPLATE_CHARS, PlainRenderer, is_plain
from prowess.prompts.renderer import WorkerRenderer

VALUES = {
    "who": "Ilsabet <b>",
    "claims": [{"text": "tall", "n": 1}, {"text": "short", "n": 2.5}],
    "more": None,
    "d": {},
}
NAMES = (
    "who",
    "claims",
    "more",
    "d",
    "claim",
    "claim.text",
    "claim.n",
    "d.k",
    "d.items",
    "loop.index",
    "absent",
    "self",
)
PIECES = [
    "text ",
    " \n",
    "{",
    "}",
    "%}",
    "}}",
    *(f"{{{{ {name} }}}}" for name in NAMES),
    "{{- who -}}",
    "{{who}}",
    "{% for claim in claims %}",
    "{%- for claim in claims -%}",
    "{% for x in d %}",
    "{% endfor %}",
    "{% if more %}",
    "{% if not more %}",
    "{% if claims %}",
    "{% else %}",
    "{% endif %}",
]


class NoWorkers:
    """Renders nothing, as where no process can be started."""

    async def render(self, *_given, **_options):
        raise Unavailable("No worker can be started.")

    async def close(self):
        pass


def rendered(renderer, template, values, syntax="jinja"):
    """The text, or what the error says and where."""
    try:
        return asyncio.run(renderer.render(template, values, syntax=syntax))
    except ProwessError as error:
        return error.code, error.message, error.hint, getattr(error, "problems", ())


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[PlainRenderer, WorkerRenderer]]:
    workers = WorkerRenderer()
    yield PlainRenderer(workers), workers
    asyncio.run(workers.close())


@pytest.mark.parametrize(
    "template",
    [
        "Dear {{ who }}",
        "{{- who }} {{ who -}}",
        "{% for c in claims %}{{ loop.index }}. {{ c.text }}{% else %}none{% endfor %}",
        "{%- if not more %}a{% else %}b{%- endif -%}",
        "no tag, { brace }",
        "",
    ],
)
def test_a_plain_template_needs_no_worker(template):
    assert is_plain(template)
    assert isinstance(rendered(PlainRenderer(NoWorkers()), template, VALUES), str)


@pytest.mark.parametrize(
    "template",
    [
        "{{ who | upper }}",
        "{{ who ~ who }}",
        "{{ who * 2 }}",
        "{{ who[0] }}",
        "{{ range(3) }}",
        "{{ d.pop('k') }}",
        "{{ 'text' }}",
        "{{ 1 }}",
        "{{ who if more }}",
        "{{ who.__class__ }}",
        "{{ who._x }}",
        "{{{ who }}}",
        "{{ {} }}",
        "{% for c in claims if c %}{% endfor %}",
        "{% for c in claims recursive %}{{ loop(claims) }}{% endfor %}",
        "{% for a, b in d %}{% endfor %}",
        "{% for i in range(3) %}{% endfor %}",
        "{% if more and who %}{% endif %}",
        "{% elif who %}",
        "{% set a = who %}",
        "{% macro m() %}{% endmacro %}",
        "{% include who %}",
        "{% raw %}{{ who }}{% endraw %}",
        "{# {{ who }} #}",
        "{{ who",
        "{{",
        "{{ ünder }}",
        pytest.param("x" * (MAX_TEMPLATE_CHARS + 1), id="a long one"),
    ],
)
def test_every_other_template_goes_to_a_worker(template):
    assert not is_plain(template)
    with pytest.raises(Unavailable):
        asyncio.run(PlainRenderer(NoWorkers()).render(template, VALUES))


def test_no_hostile_template_is_plain():
    assert [name for name, template in HOSTILE.items() if is_plain(template)] == []


def test_mustache_goes_to_a_worker():
    with pytest.raises(Unavailable):
        asyncio.run(PlainRenderer(NoWorkers()).render("{{ who }}", VALUES, syntax="mustache"))


@settings(max_examples=60)
@given(st.lists(st.sampled_from(PIECES), max_size=12))
def test_a_template_of_plain_tags_gives_what_a_worker_gives(both, pieces):
    plain, workers = both
    template = "".join(pieces)

    assert rendered(plain, template, VALUES) == rendered(workers, template, VALUES)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60)
@given(JSON)
def test_every_value_is_printed_as_a_worker_prints_it(both, value):
    plain, workers = both
    template = "{{ x }}|{% if x %}yes{% else %}no{% endif %}"

    assert rendered(plain, template, {"x": value}) == rendered(workers, template, {"x": value})


@pytest.mark.parametrize(
    ("template", "values"),
    [
        ("{{ name }}\n{{ nmae }}", {"name": "ada"}),
        ("{% if x %}", {"x": 1}),
        ("{{ order.items }}", {"order": {}}),
        ("{% for x in order.items %}{% endfor %}", {"order": {}}),
        ("{{ x }}", {"x": "\ud800"}),
        ("{{ x }}", {"x": 10**5000}),
        ("{{ x }}", {"x": float("nan")}),
        ("{{ x }}", {"x": {1: 2}}),
        ("{{ x }}", {"x": object}),
        ("{{ template_name }}{{ source }}{{ name }}", {"template_name": 1, "source": 2, "name": 3}),
        ("{{ x }}", {"x": "<built-in method "}),
        pytest.param("{% if x %}" * 400 + "{% endif %}" * 400, {"x": 1}, id="deep"),
        pytest.param("{{ x }}" * 500, {"x": "long " * 1000}, id="long"),
    ],
)
def test_a_fault_is_described_as_a_worker_describes_it(both, template, values):
    plain, workers = both

    assert is_plain(template)
    assert rendered(plain, template, values) == rendered(workers, template, values)


def test_loops_in_loops_are_ended_by_the_limit_of_a_worker(both):
    plain, _ = both
    template = "".join(f"{{% for v{n} in items %}}" for n in range(9)) + "x" + "{% endfor %}" * 9

    assert is_plain(template)
    with pytest.raises(RunFailed, match="limit"):
        asyncio.run(plain.render(template, {"items": list(range(9))}))


def test_values_are_not_taken_for_templates(both):
    plain, _ = both

    assert asyncio.run(plain.render("{{ x }}", {"x": "{{ who }}"})) == "{{ who }}"


def test_a_missing_value_is_named_with_its_line(both):
    plain, _ = both
    with pytest.raises(Invalid, match="`nmae`") as caught:
        asyncio.run(plain.render("a\n{{ nmae }}", {"name": "ada"}))

    assert caught.value.problems[0].line == 2
