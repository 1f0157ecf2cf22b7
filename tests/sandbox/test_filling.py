"""`{{ name }}` in a script: whatever the value is, it stays a value."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prowess.errors import Invalid
from prowess.sandbox.script import script_from_template

HOSTILE = [
    "'",
    '"',
    "\\",
    "\\'",
    "'''",
    '"""',
    "\n",
    "\r\n",
    "\x00",
    "{",
    "}",
    "{{ secret }}",
    "{secret}",
    "{__import__('os')}",
    "'); leak(secret); ('",
    "' + secret + '",
    '" + secret + "',
    "\\\n",
    "#",
    "'#",
    "\u2028",
    "\ud83d\ude00",
    "\N{BELL}",
    "\\N{BELL}",
    "%s",
    "_input_0_",
    "\t\x0c",
    "]" * 50,
    "é\u0301",
]
EVERYWHERE = """
import prowess
seen = [
    {{ value }},
    '{{ value }}',
    "{{ value }}",
    '''{{ value }}''',
    \"\"\"{{value}}\"\"\",
    r'{{ value }}',
    f'{{ value }}',
    f"{{ value }}{plain}",
    f'''{plain:>1}{{ value }}''',
    f'{"{{ value }}"}',
    'a' '{{ value }}' 'b',
    {'{{ value }}': {{ value }}}['{{ value }}'],
    b'{{ value }}'.decode(),
    value,
    inputs['value'],
    (lambda x={{ value }}: x)(),
    # {{ value }}
]
prowess.submit(seen)
"""


def seen(value: str) -> list[str]:
    plain = "p"
    return [
        *[value] * 6,
        value,
        value + plain,
        plain + value,
        value,
        "a" + value + "b",
        *[value] * 5,
    ]


@pytest.mark.parametrize("value", HOSTILE)
def test_a_hostile_text_is_itself_in_every_place(run, value):
    value = value.encode("utf-16", "surrogatepass").decode("utf-16")
    assert run(EVERYWHERE, {"value": value, "plain": "p", "secret": "S"}).result == seen(value)


def test_any_text_is_itself_in_every_place(sandbox):
    pieces = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=20))
    texts = st.lists(pieces, max_size=4).map("".join).map(lambda text: text.encode("utf-8", "replace").decode())

    async def check(value: str) -> None:
        ran = await sandbox.run(script_from_template(EVERYWHERE, {"value": value, "plain": "p", "secret": "S"}), {})
        assert ran.result == seen(value), ran.error

    with asyncio.Runner() as runner:

        @settings(max_examples=100)
        @given(texts)
        def every(value: str) -> None:
            runner.run(check(value))

        every()


def test_any_value_is_itself_as_an_expression_and_json_within_a_text(sandbox):
    plain = st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**70), 2**70)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(st.characters(codec="utf-8"), max_size=10),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), inner, max_size=4)
        ),
        max_leaves=10,
    )

    async def check(value: object) -> None:
        code = "import prowess\nprowess.submit([{{ value }}, '{{ value }}', inputs['value']])"
        ran = await sandbox.run(script_from_template(code, {"value": value}), {})
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        assert ran.result == [value, text, value], ran.error

    with asyncio.Runner() as runner:

        @settings(max_examples=60)
        @given(plain)
        def every(value: object) -> None:
            runner.run(check(value))

        every()


@pytest.mark.parametrize(
    "code",
    [
        "import {{ value }}",
        "from {{ value }} import x",
        "def {{ value }}(): pass",
        "class {{ value }}: pass",
        "x.{{ value }}",
        "get_{{ value }}()",
        "f({{ value }}=1)",
        "{{ value }} = 1",
        "del {{ value }}",
        "global {{ value }}",
        "for {{ value }} in []: pass",
        "lambda {{ value }}: 1",
        "match 1:\n    case {{ value }}: pass",
        "try: pass\nexcept Exception as {{ value }}: pass",
        "t'{ {{ value }} }'",
    ],
)
def test_a_value_can_be_no_name(run, code):
    ran = run(code, {"value": "os"})
    assert (ran.ended, ran.error.type) == ("raised", "SyntaxError")
    assert "_input_" not in ran.error.trace + ran.error.message


def test_values_within_values_are_reached_by_their_path(run):
    inputs = {"page": {"tags": ["a", {"b": "c"}]}}
    code = "import prowess\nprowess.submit(['{{ page.tags.0 }}', {{ page.tags.1.b }}, {{ page.tags }}])"
    assert run(code, inputs).result == ["a", "c", ["a", {"b": "c"}]]


@pytest.mark.parametrize(
    "code",
    ["f'{{{x}}}'", "f'{{ {x} }}'", "f'{{}}'", "f'{{x!r}}'", "{'a': {'b': {}}}", "'{{ not python }}'", "f'{ {1}}'"],
)
def test_other_braces_are_pythons(run, code):
    x = "v"
    assert run(f"import prowess\nprowess.submit({code})", {"x": x}).result == eval(code)


def test_lines_stay_what_they_were(run):
    ran = run("a = '{{ value }}'\nb = {{ value }}\n\n1 / 0", {"value": "x\ny\nz"})
    assert ran.error.line == 4


def test_a_trace_shows_the_script_as_it_was_written(run):
    ran = run("x = {}\nx[{{ value }}]", {"value": "k"})
    assert "x[{{ value }}]" in ran.error.trace


def test_every_name_that_no_input_has_is_named_with_its_line():
    with pytest.raises(Invalid) as caught:
        script_from_template("a = {{ one }}\nb = '{{ two.three }}'\nc = {{ four }}", {"four": 4, "two": {}})
    assert [(problem.field, problem.line) for problem in caught.value.problems] == [("one", 1), ("two.three", 2)]


@pytest.mark.parametrize("code", ["x = {{ a | upper }}", "{% for x in y %}\npass\n{% endfor %}"])
def test_what_only_prompts_know_is_refused_with_its_line(code):
    with pytest.raises(Invalid) as caught:
        script_from_template(code, {"a": 1})
    assert caught.value.problems[0].line == 1


@pytest.mark.parametrize(
    "inputs",
    [{"a": float("nan")}, {"a": object()}, {"a": {1, 2}}, {"a": "x" * (5 << 20)}],
    ids=["nan", "object", "set", "large"],
)
def test_inputs_that_are_not_plain_are_refused(inputs):
    with pytest.raises(Invalid):
        script_from_template("pass", inputs)


def test_inputs_that_nest_too_deep_are_refused():
    value: list = []
    for _ in range(100):
        value = [value]
    with pytest.raises(Invalid):
        script_from_template("pass", {"a": value})
