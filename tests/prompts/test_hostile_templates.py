"""Templates that would take the machine down: each ends within its limits, and the next one is none the wiser."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prowess.errors import Invalid, ProwessError, RunFailed, TimedOut
from prowess.skill.template import MAX_TEMPLATE_BYTES, find_variables

HOSTILE = {
    "a list of a hundred million": "{{ [1] * 10**8 }}",
    "a text of a billion": "{{ 'a' * 10**9 }}",
    "a hundred million, times ten": "{% set a = 'a' * 10**8 %}{{ a ~ a ~ a ~ a ~ a ~ a ~ a ~ a ~ a ~ a }}",
    "a wide number": "{{ '%0999999999d' % 1 }}",
    "a wide number by filter": "{{ '%0999999999d' | format(1) }}",
    "a join": "{{ range(100000) | join('x' * 100000) }}",
    "a replacement": "{{ ('a' * 10**6) | replace('a', 'b' * 10**6) }}",
    "an indentation": "{{ ('a\n' * 10**6) | indent(10**6) }}",
    "a centred text": "{{ 'a' | center(10**9) }}",
    "a batch": "{{ [1] | batch(10**9, 'x') | list }}",
    "a slice": "{{ [1] | slice(10**9) | list }}",
    "doublings": "{% set n = namespace(s='ab') %}{% for i in range(40) %}{% set n.s = n.s ~ n.s %}{% endfor %}{{ n.s }}",
    "doublings of a list": "{% set n = namespace(s=[1]) %}{% for i in range(40) %}{% set n.s = [n.s, n.s] %}{% endfor %}{{ n.s }}",
    "a deep list": "{% set n = namespace(s=1) %}{% for i in range(99999) %}{% set n.s = [n.s] %}{% endfor %}{{ n.s }}",
    "loops in loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}{% endfor %}{% endfor %}",
    "a long range": "{{ range(10**18) | list }}",
    "a macro that calls itself": "{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(1) }}",
    "a macro that calls itself twice": "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(99) }}",
    "a loop that calls itself": "{% for a in [[1]] recursive %}{{ loop([[1]]) }}{% endfor %}",
    "a block that includes itself": "{% include 'template' %}",
    "a caller": "{% macro m() %}{{ caller() }}{{ caller() }}{% endmacro %}{% call m() %}{% call m() %}x{% endcall %}{% endcall %}",
    "a power": "{{ 9**9**9**9 }}",
    "a sort": "{{ range(100000) | list | sort(reverse=true) | sort | unique | list | length }}{{ [1] * 10**8 }}",
    "a list that grows": "{% for i in range(99999) %}{{ bag.extend(bag) }}{% endfor %}",
    "an object that holds itself": "{{ box.update({'box': box}) }}{{ box }}",
    "an object that holds itself as json": "{{ box.update({'box': box}) }}{{ box | tojson }}",
    "keys of a range": "{{ box.fromkeys(range(99999999)) }}",
    "a pretty print": "{{ ([[[[[1] * 1000] * 100] * 100] * 100]) | pprint }}",
    "minus signs": "{{ " + "-" * 200_000 + "1 }}",
    "brackets": "{{ " + "[" * 100_000 + "]" * 100_000 + " }}",
    "branches": "{% if a %}" + "{% elif a %}" * 20_000 + "{% endif %}",
}
HOSTILE_MUSTACHE = {
    "sections in sections": "{{#a}}" * 20_000 + "{{/a}}" * 20_000,
    "many sections": "{{#a}}x{{/a}}" * 19_000,
    "sections of different names": "".join(f"{{{{#a{n}}}}}" for n in range(5000)) + "x",
    "loops in loops": "{{#l}}" * 8 + "x" + "{{/l}}" * 8,
    "many delimiters": "{{=<% %>=}}<%={{ }}=%>" * 11_000,
    "a long name": "{{a" + ".a" * 100_000 + "}}",
    "a class": "{{#s.__class__.__base__.__subclasses__}}x{{/s.__class__.__base__.__subclasses__}}{{s.__class__}}",
    "a method": "{{#d.keys}}x{{/d.keys}}{{d.keys}}",
    "globals": "{{s.join.__self__.__init__.__globals__}}",
    "an index of many digits": "{{l." + "9" * 100_000 + "}}",
    "a partial that includes itself": "{{>template}}",
    "an inheritance": "{{<a}}{{$b}}{{/b}}{{/a}}",
}
VALUES = {"bag": [0], "box": {"k": 1}, "a": True, "s": "text", "d": {}, "l": list(range(100))}


@pytest.mark.few(3)
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_template_is_bounded(render, name):
    bounded(render, HOSTILE[name], "jinja")


@pytest.mark.few(1)
@pytest.mark.parametrize("name", HOSTILE_MUSTACHE)
def test_a_hostile_mustache_template_is_bounded(render, name):
    bounded(render, HOSTILE_MUSTACHE[name], "mustache")


def bounded(render, template, syntax):
    """It gives a text within the limit, or an error that says which limit it met; then rendering goes on."""
    text, error = "", None
    try:
        text = render(template, VALUES, syntax)
    except ProwessError as raised:
        error = raised
    assert len(text.encode()) <= 1 << 20
    assert error is None or (isinstance(error, Invalid | RunFailed) and error.hint and "ended" not in error.message)
    assert render("{{ x }}", {"x": "as before"}) == "as before"


def test_what_takes_too_long_is_told_so(render):
    with pytest.raises(TimedOut, match="2 s"):
        render("{{ [1] * 10**8 }}")


def test_what_takes_too_much_memory_is_told_so(render):
    with pytest.raises(RunFailed, match="256 MiB"):
        render(HOSTILE["a replacement"])
    with pytest.raises(RunFailed, match="256 MiB"):
        render(HOSTILE["a join"])


def test_what_takes_too_many_steps_is_told_so(render):
    with pytest.raises(RunFailed, match="5,000,000 steps"):
        render(HOSTILE["loops in loops"])


def test_no_template_reaches_what_lies_behind_a_value(render):
    for name in ("__class__", "__init__", "__globals__", "_private", "__builtins__"):
        for template in (f"{{{{ d.{name} }}}}", f"{{{{ d['{name}'] }}}}", f"{{{{ d | attr('{name}') }}}}"):
            with pytest.raises(Invalid):
                render(template, VALUES)
        with pytest.raises(Invalid):
            render(f"{{{{d.{name}}}}}", VALUES, "mustache")


DEEP = """
import sys, threading
from prowess.errors import Invalid
from prowess.skill.template import find_variables

PIECES = [
    ("{{ ", "-", "1", "", " }}"), ("{{ ", "not ", "a", "", " }}"), ("{{ ", "a + ", "1", "", " }}"),
    ("{{ a", ".b", "", "", " }}"), ("{{ a", "|upper", "", "", " }}"), ("{{ a", "(1)", "", "", " }}"),
    ("{{ a", "[0]", "", "", " }}"), ("{{ ", "(", "a", ")", " }}"), ("{{ ", "[", "a", "]", " }}"),
    ("{{ ", "{1: ", "a", "}", " }}"), ("{{ ", "a(", "1", ")", " }}"), ("{{ a", "|d(a", "", ")", " }}"),
    ("{{ a", " if a else b", "", "", " }}"), ("{{ a", " is defined", "", "", " }}"), ("{{ a", " ** a", "", "", " }}"),
    ("{{ ", "a is not a is not ", "b", "", " }}"), ("{% for ", "(", "a", ")", " in y %}{% endfor %}"),
    ("{% do ", "a(", "1", ")", " %}"), ("{% if a %}", "{% elif a %}", "", "", "{% endif %}"),
    ("", "{% if a %}", "x", "{% endif %}", ""), ("", "{% for a in b %}", "x", "{% endfor %}", ""),
    ("", "{% call a() %}", "x", "{% endcall %}", ""), ("", "{% set a %}", "x", "{% endset %}", ""),
    ("{{ {'a': {}} ", "-", "1", "", " }}"), ("{% raw %}{{ ' {% endraw %}{{ ", "-", "1", "", " }}"),
    ("{# {{ ' #}{{ ", "-", "1", "", " }}"), ("{{ '\\\\\\\\' ", "-", "1", "", " }}"), ("{{ ' }} {{ ' ", "-", "1", "", " }}"),
    ("{% raw -%} ' {%- endraw %}{{ ", "-", "1", "", " }}"), ("{%- raw +%} ' {%+ endraw -%}{{ ", "-", "1", "", " }}"),
    ("{% call a() %}" * 100 + "{{ ", "(-", "1", ")", " }}" + "{% endcall %}" * 100),
]

def read_all():
    for head, opening, middle, closing, tail in PIECES:
        for count in (20, 60, 110, 150, 190, 1000, 20_000, 100_000):
            try:
                find_variables((head + opening * count + middle + closing * count + tail)[: 256 * 1024])
            except Invalid:
                pass
    print("all read")

threading.stack_size(512 * 1024)
thread = threading.Thread(target=read_all)
thread.start()
thread.join()
"""


@pytest.mark.long
def test_no_template_uses_up_the_stack_of_whoever_asks_for_its_variables():
    ran = subprocess.run([sys.executable, "-c", DEEP], capture_output=True, text=True, check=False)

    assert (ran.returncode, ran.stdout) == (0, "all read\n"), ran.stderr[-500:]


WORDS = st.sampled_from(
    [*"{}%#'\"()[],.|-+~:\\ \nab1", "{{", "}}", "{%", "%}", "{#", "#}", "raw", "endraw", " if ", "endif", " for ", " in ",
     "endfor", " set ", "=", " is ", " not ", "{{#", "{{/", "{{^", "{{=", "=}}", "{{{", "}}}", "{{>", "elif", "else"]
)  # fmt: skip


@settings(max_examples=300)
@given(template=st.lists(WORDS, max_size=60).map("".join), syntax=st.sampled_from(["jinja", "mustache"]))
def test_any_text_has_variables_or_is_refused(template, syntax):
    try:
        names, codes = find_variables(template, syntax), []
    except Invalid as refused:
        names, codes = frozenset(), [problem.code for problem in refused.problems]

    assert all(names)
    assert codes in ([], ["template-syntax"])


def test_a_template_over_the_limit_is_refused_without_being_read():
    with pytest.raises(Invalid, match="262,144"):
        find_variables("{{" * MAX_TEMPLATE_BYTES)
