"""What is said about a Python file before it runs: only what is sure, and never at the cost of whoever asks."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.skill.python_source import MAX_BRACKET_DEPTH, MAX_CODE_CHARS, find_source_fault

GOOD = "def execute(args, ctx):\n    return 1\n"


@pytest.mark.parametrize(
    "code",
    [
        GOOD,
        "async def execute(args, ctx):\n    return 1\n",
        "execute = lambda args, ctx: 1",
        "from library import run as execute",
        "import execute",
        "if True:\n    def execute(args, ctx): ...\n",
        "try:\n    from fast import execute\nexcept ImportError:\n    execute = None\n",
        "first, execute = 1, 2",
        "from library import *",
        "globals()['execute'] = print",
        "\r\n".join(GOOD.splitlines()),
        "pattern = '\\d+ \\N{BULLET}'\n" + GOOD,
        'text = """a\n" \' ( [ {\n"""\n' + GOOD,
        "# ' \" ( [ {\n" + GOOD,
        "f'{1:{2}}' f'{{' \"a\" 'b\\\nc'\nrb'\\x' B'y'\n" + GOOD,
    ],
)
def test_a_file_that_defines_its_function_has_no_fault(code: str) -> None:
    assert find_source_fault(code, "execute") is None


@pytest.mark.parametrize(
    ("code", "line", "message"),
    [
        ("def execute(args, ctx)\n    return 1\n", 1, "expected ':'"),
        ('text = """one\ntwo"""\n\ndef execute(args ctx):\n    ...\n', 4, "invalid syntax"),
        (GOOD + "  x = 1\n", 3, "unindent"),
        (GOOD + "x = (1,\n", 3, "'(' was never closed"),
        (GOOD + "x = 'one\n", 3, "never closed"),
        (GOOD + 'x = """one\n', 3, "never closed"),
        (GOOD + "\nreturn 2\n", 4, "outside function"),
        (GOOD + "x = 1\0", 3, "NUL"),
        ("function execute(args, ctx) { return 1; }", 1, "invalid syntax"),
    ],
)
def test_a_fault_is_told_with_its_line(code: str, line: int, message: str) -> None:
    fault = find_source_fault(code, "execute")
    assert fault is not None
    assert (fault.line, fault.certain) == (line, True)
    assert message in fault.message


@pytest.mark.parametrize(
    "code", ["", "def run(args, ctx): ...", "class Tool:\n    def execute(self): ...\n", "'execute'"]
)
def test_a_file_without_the_function_is_a_fault(code: str) -> None:
    fault = find_source_fault(code, "execute")
    assert fault is not None
    assert "does not define a function named execute" in fault.message


@pytest.mark.parametrize(
    "code",
    [
        "type Number = int\n",
        "def first[T](items: list[T]) -> T:\n    return items[0]\n",
        "class Box[T]: ...\n",
        "try: ...\nexcept ValueError, TypeError: ...\n",
    ],
)
@pytest.mark.skipif(sys.version_info >= (3, 12), reason="this Python reads it")
def test_what_may_be_newer_python_is_not_sure_to_be_a_fault(code: str) -> None:
    fault = find_source_fault(code + GOOD, "execute")
    assert fault is not None
    assert not fault.certain


NEWER_TEXTS = [
    'x = f"{d["a"]}"\n',
    "x = f'{\n1}'\n",
    "x = t'{1}'\n",
    'x = f"{f"{f"{1}"}"} {{ {"}"} {d["a"]:>{w["b"]}}"\n',
    "x = f\"{', '.join(f'{a[\"b\"]!r}' for a in c)}\"\n",
    "x = f'{d:%H\"%M} {x!r:{'a'}}'\n",
    'x = f"""{\n  1  # }"\n}"""\n',
    "x = f'\\'{1}'\n",
]


@pytest.mark.parametrize("code", NEWER_TEXTS)
def test_newer_ways_to_write_a_text_are_no_fault_and_what_follows_is_checked(code: str) -> None:
    assert find_source_fault(code + GOOD, "execute") is None
    fault = find_source_fault(code + "1 1\n" + GOOD, "execute")
    assert fault is not None
    assert fault.line == code.count("\n") + 1


@pytest.mark.parametrize(
    "code",
    [
        "(" * (MAX_BRACKET_DEPTH + 1) + ")" * (MAX_BRACKET_DEPTH + 1),
        "(" * 100_000,
        "[{(" * 50_000,
        "x = " + "not " * 50_000 + "1",
        "x = (" + "-\n" * 50_000 + "1)",
        "x = a" + ".b" * 50_000,
        "x = 1" + "+1" * 50_000,
        "if a: ...\n" + "elif a: ...\n" * 5_000,
        "x = " + "lambda: " * 50_000 + "1",
        "a\n" * MAX_CODE_CHARS,
        "x = f'{" + "(" * 100_000,
    ],
)
def test_what_nobody_writes_is_not_judged(code: str) -> None:
    assert find_source_fault(code, "execute") is None


@given(st.text(alphabet="()[]{}'\"fbr#\\\n\t :=,.a1é\ud800", max_size=60))
def test_any_text_has_an_answer(code: str) -> None:
    fault = find_source_fault(code, "execute")
    assert fault is None or fault.message


def test_this_package_has_no_fault_but_that_it_has_no_such_function() -> None:
    root = Path(ast.__file__).parent
    texts = [path.read_text(encoding="utf-8") for path in sorted((root / "json").glob("*.py"))]
    found = [
        find_source_fault(text, "execute") for text in [*texts, (root / "tokenize.py").read_text(encoding="utf-8")]
    ]
    assert {fault.message for fault in found if fault} <= {"it does not define a function named execute"}
