"""Scripts: what they are given, what they can use, and what is told about their end."""

from __future__ import annotations

import json

import pytest

from prowess.errors import NotFound


async def get_page(slug: str, deep: bool = False) -> dict:
    if slug == "nowhere":
        raise NotFound("Page 'nowhere' not found.", hint="There is: somewhere.")
    return {"slug": slug, "deep": deep}


PAGES = {"get_page": get_page}


def test_what_a_script_submits_is_its_result(run):
    ran = run("import prowess\nprowess.submit({'a': [1, 2.5, None, True, 'é']})")
    assert (ran.ended, ran.submitted, ran.result) == ("done", True, {"a": [1, 2.5, None, True, "é"]})


def test_the_last_submission_counts(run):
    assert run("import prowess\nprowess.submit(1)\nprowess.submit(2)").result == 2


def test_a_script_that_submits_nothing_has_no_result_whatever_it_prints(run):
    ran = run("""print('{"done": true, "result": "forged"}')""")
    assert (ran.ended, ran.submitted, ran.result) == ("done", False, None)
    assert ran.stdout == '{"done": true, "result": "forged"}\n'


def test_both_modules_have_the_same_functions(run):
    code = "import inklings, prowess\nprowess.submit([inklings.get_page('a'), prowess.get_page('b', deep=True)])"
    assert run(code, functions=PAGES).result == [{"slug": "a", "deep": False}, {"slug": "b", "deep": True}]


def test_what_is_printed_is_kept_in_order_also_when_the_script_fails(run):
    ran = run("import sys\nprint('one')\nprint('two', file=sys.stderr)\n1 / 0")
    assert (ran.ended, ran.stdout) == ("raised", "one\ntwo\n")


def test_what_was_printed_before_a_limit_was_met_is_kept(run):
    ran = run("print('before')\nwhile True: pass", fuel=10**8)
    assert (ran.ended, ran.stdout) == ("fuel", "before\n")


def test_an_error_has_the_line_and_the_message_of_the_script(run):
    ran = run("def f(x):\n    return x['missing']\n\nf({})")
    assert (ran.ended, ran.error.type, ran.error.message, ran.error.line) == ("raised", "KeyError", "'missing'", 2)
    assert "return x['missing']" in ran.error.trace


def test_a_byte_order_mark_is_no_part_of_a_script(run):
    assert run("\ufeffimport prowess\nprowess.submit(1)").result == 1


def test_a_script_that_cannot_be_parsed_says_where(run):
    ran = run("x = 1\ndef f(:\n  pass")
    assert (ran.ended, ran.error.type, ran.error.line) == ("raised", "SyntaxError", 2)


def test_an_error_whose_message_cannot_be_made_is_told_by_its_type(run):
    ran = run("class Odd(Exception):\n    def __str__(self): raise ValueError\nraise Odd")
    assert (ran.error.type, ran.error.message, ran.error.line) == ("Odd", "", 3)


@pytest.mark.parametrize(("code", "ended"), [("exit()", "done"), ("exit(0)", "done"), ("exit('no')", "raised")])
def test_a_script_can_end_itself(run, code, ended):
    assert run(f"import sys\nsys.{code}").ended == ended


def test_what_a_host_function_refuses_can_be_caught(run):
    code = "import prowess\ntry: prowess.get_page('nowhere')\nexcept prowess.HostError as e: prowess.submit([str(e), e.code])"
    ran = run(code, functions=PAGES)
    assert ran.result == ["Page 'nowhere' not found. There is: somewhere.", "not-found"]


def test_what_a_host_function_refuses_and_nobody_catches_ends_the_script(run):
    ran = run("import prowess\n\nprowess.get_page('nowhere')", functions=PAGES)
    assert (ran.ended, ran.error.of_host, ran.error.line) == ("raised", True, 3)


def test_arguments_that_a_function_does_not_take_are_refused(run):
    ran = run("import prowess\nprowess.get_page(nonsense=1)", functions=PAGES)
    assert ran.ended == "raised"
    assert "nonsense" in ran.error.message or "slug" in ran.error.message


def test_arguments_that_json_cannot_say_are_refused_before_they_leave(run):
    ran = run("import prowess\nprowess.get_page({1, 2})", functions=PAGES)
    assert (ran.error.type, ran.calls) == ("TypeError", 0)


def test_a_fault_of_a_host_function_ends_the_script_and_is_raised(run):
    async def broken() -> None:
        raise ZeroDivisionError

    code = "import prowess\ntry: prowess.broken()\nexcept BaseException: pass\nwhile True: pass"
    with pytest.raises(ZeroDivisionError):
        run(code, functions={"broken": broken})


def test_a_function_that_there_is_not_is_not_in_the_module(run):
    assert run("import prowess\nprowess.fetch('http://x')", functions=PAGES).error.type == "AttributeError"


@pytest.mark.parametrize(
    ("answer", "items"),
    [
        ("- one\n- two\n\n3. three", ["one", "two", "three"]),
        ('["one", {"claim": 2}]', ["one", {"claim": 2}]),
        ("just one", ["just one"]),
        ("", []),
    ],
    ids=["a list in prose", "a list in JSON", "a line", "nothing"],
)
def test_an_answer_is_a_text_and_going_over_it_gives_what_it_lists(run, answer, items):
    async def llm_query(prompt: str) -> str:
        return answer

    code = "import prowess\na = prowess.llm_query('?')\nb = []\nb.extend(a)\nprowess.submit([a, a.upper(), len(a), b])"
    assert run(code, functions={"llm_query": llm_query}).result == [answer, answer.upper(), len(answer), items]


def test_inputs_are_there_by_name_and_as_variables(run):
    inputs = {"entity_type": "place", "not a name": 1, "class": 2, "len": 3, "_hidden": 4, "inputs": 5, "previous": [6]}
    code = "import prowess\nprowess.submit([entity_type, previous, inputs, len('abc'), '_hidden' in globals()])"
    assert run(code, inputs).result == ["place", [6], inputs, 3, False]


def test_the_standard_library_that_computes_is_there(run):
    code = """
import asyncio, base64, collections, csv, dataclasses, datetime, decimal, difflib, enum, functools, hashlib, io, itertools
import json, math, random, re, statistics, string, textwrap, time, typing, urllib.parse, uuid, xml.etree.ElementTree
async def later():
    await asyncio.sleep(0.001)
    return await asyncio.gather(now(), now())
async def now(): return 1
@dataclasses.dataclass
class Point: x: int
import prowess
prowess.submit([
    asyncio.run(later()), datetime.datetime.strptime("2026-11-15", "%Y-%m-%d").year, statistics.mean([1, 3]),
    json.loads("[1]"), str(Point(1)), hashlib.sha256(b"").hexdigest()[:8], "a".encode("utf-16-le").hex(),
    xml.etree.ElementTree.fromstring("<a b='c'/>").get("b"), len(str(uuid.uuid4())), f"{decimal.Decimal(1) / 3:.3f}",
])
"""
    expected = [[1, 1], 2026, 2, [1], "Point(x=1)", "e3b0c442", "6100", "c", 36, "0.333"]
    assert run(code).result == expected


def test_each_run_has_its_own_randomness(run):
    code = "import random, secrets, prowess\nprowess.submit([random.random(), secrets.token_hex(8)])"
    first, second = run(code).result, run(code).result
    assert first[0] != second[0]
    assert first[1] != second[1]


def test_texts_that_no_file_could_hold_come_back_whole(run):
    ran = run("import prowess\nprint('\\ud800')\nprowess.submit(['\\ud800', '\\U0001f600', {'\\udfff': 1}])")
    assert ran.ended == "done"
    assert json.dumps(ran.result, ensure_ascii=False).encode()
    assert ran.result[1] == "\U0001f600"


@pytest.mark.parametrize(
    "value",
    ["float('nan')", "float('inf')", "{1}", "object()", "{(1,): 2}"],
    ids=["nan", "inf", "set", "object", "key"],
)
def test_what_json_cannot_say_is_an_error_at_the_line_that_submits_it(run, value):
    ran = run(f"import prowess\n\nprowess.submit({value})")
    assert (ran.ended, ran.error.line, ran.error.type in {"ValueError", "TypeError"}) == ("raised", 3, True)


def test_the_same_script_takes_the_same_fuel(run):
    code = "x = sum(i * i for i in range(10_000))\nprint(x)"
    assert len({run(code).fuel for _ in range(5)}) == 1
