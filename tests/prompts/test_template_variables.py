"""Which inputs a template takes, as its text tells."""

from __future__ import annotations

import pytest

from prowess.errors import Invalid
from prowess.skill.template import find_variables


@pytest.mark.parametrize(
    ("template", "names"),
    [
        ("Hello", set()),
        ("{{ a }} and {{ b.c }} and {{ d[e] }}", {"a", "b", "d", "e"}),
        ("{% for x in items %}{{ x.name }}{{ loop.index }}{{ other }}{% endfor %}", {"items", "other"}),
        ("{% set x = 1 %}{{ x }}", set()),
        ("{{ range(3) }}{{ dict(a=b) }}{{ namespace() }}", {"b"}),
        ("{% macro m(a) %}{{ a }}{{ b }}{% endmacro %}{{ m(c) }}", {"b", "c"}),
        ("{% if a is defined %}{{ b | default('x') }}{% endif %}", {"a", "b"}),
        ("{# {{ a }} #}{% raw %}{{ b }}{% endraw %}{{ '{{ c }}' }}", set()),
        ("{{ {'a': {'b': c}} }}{{ größe }}", {"c", "größe"}),
        ("{{ debug }}", {"debug"}),
    ],
)
def test_the_names_that_a_jinja_template_uses_and_does_not_set(template, names):
    assert find_variables(template) == names


@pytest.mark.parametrize(
    ("template", "names"),
    [
        ("Hello", set()),
        ("{{a}} {{{ b }}} {{& c.d }} {{.}}", {"a", "b", "c"}),
        ("{{#items}}{{name}}{{/items}}{{name}}", {"items", "name"}),
        ("{{#items}}{{name}}{{/items}}", {"items"}),
        ("{{^items}}{{none}}{{/items}}", {"items", "none"}),
        ("{{! comment }}{{=<% %>=}}<% a %> {{ b }} <%={{ }}=%>{{c}}", {"a", "c"}),
        ("{{ not closed", set()),
        ("{{}}", set()),
    ],
)
def test_the_names_that_a_mustache_template_looks_up_outside_its_sections(template, names):
    assert find_variables(template, "mustache") == names


def test_a_template_that_cannot_be_read_is_refused_with_its_line():
    with pytest.raises(Invalid) as caught:
        find_variables("a\nb\n{{ c d }}")

    assert [(problem.code, problem.line) for problem in caught.value.problems] == [("template-syntax", 3)]


def test_half_a_character_is_refused():
    for syntax in ("jinja", "mustache"):
        with pytest.raises(Invalid, match="unpaired surrogate"):
            find_variables("\ud800", syntax)


@pytest.mark.parametrize(
    "template",
    [
        "{{ " + " ~ ".join(["a"] * 150) + " }}",
        "{{ [" + ", ".join(["{'a': -b.c}"] * 3_000) + "] }}",
        "{% if a %}1" + "".join(f"{{% elif a == {n} %}}{n}" for n in range(60)) + "{% endif %}",
        "{% if a %}" * 40 + "x" + "{% endif %}" * 40,
        "- a line - of **markdown** - with (signs), {braces} and [brackets]\n" * 3_500 + "{{ a }}",
        "{% raw %}" + "{{ ' }} (" * 10_000 + "{% endraw %}{{ a }}",
        "{{ a | default('" + "-" * 5_000 + "') }}",
    ],
)
def test_long_templates_that_hang_little_on_one_another_are_read(template):
    assert find_variables(template) <= {"a", "b"}
