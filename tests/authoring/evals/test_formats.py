"""Eval files of all formats become cases and checks; what cannot be used is a problem with its line and a fix."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from prowess.authoring.evals.case import Check, EvalSuite
from prowess.authoring.evals.formats.suite import find_suite_paths, read_suite


def read(files: dict[str, str | bytes], **settings) -> EvalSuite:
    return read_suite(
        {path: one if isinstance(one, bytes) else one.encode() for path, one in files.items()}, **settings
    )


def told(suite: EvalSuite) -> list[tuple[str, str, int | None]]:
    return [(one.severity, one.code, one.line) for one in suite.problems]


class TestSkillCreator:
    def test_statements_are_read_however_authors_write_them(self) -> None:
        written = {
            "skill_name": "pdf",
            "evals": [
                {
                    "id": 1,
                    "name": "forms",
                    "prompt": "Fill the form.",
                    "expected_output": "A filled form",
                    "expectations": ["Names the file."],
                    "assertions": [{"id": "a", "text": "Has a total."}, {"name": "b", "description": "Is short."}],
                    "category": "forms",
                }
            ],
        }
        suite = read({"evals/evals.json": json.dumps(written)})
        [case] = suite.cases
        assert (suite.skill, case.id, case.name, case.label) == ("pdf", "1", "forms", "forms")
        assert case.expected == "A filled form"
        assert [check.settings["text"] for check in case.checks] == ["Names the file.", "Has a total.", "Is short."]
        assert suite.is_usable

    def test_an_expected_output_without_statements_is_judged(self) -> None:
        suite = read({"evals/evals.json": '{"evals": [{"prompt": "Hi", "expected_output": "A greeting"}]}'})
        [check] = suite.cases[0].checks
        assert check.type == "expectation"
        assert "A greeting" in check.settings["text"]

    def test_files_are_found_from_the_skill_and_from_the_evals_folder(self) -> None:
        entry = {"prompt": "Read", "files": ["evals/files/a.txt", "files/b.txt"], "assertions": ["Quotes both."]}
        files = {"evals/evals.json": json.dumps({"evals": [entry]}), "evals/files/a.txt": "A", "evals/files/b.txt": "B"}
        assert [one.text for one in read(files).cases[0].files] == ["A", "B"]

    @pytest.mark.parametrize(
        "path", ["../../etc/passwd", "/etc/passwd", "missing.txt", "C:/x", "image.png", "big.txt", 7]
    )
    def test_a_case_with_an_unusable_file_is_skipped(self, path: object) -> None:
        entries = [
            {"prompt": "Read", "files": [path], "assertions": ["x"]},
            {"prompt": "Hi", "assertions": ["Greets."]},
        ]
        files = {
            "evals/evals.json": json.dumps({"evals": entries}),
            "image.png": b"\x89PNG\xff",
            "big.txt": b"x" * 300_000,
        }
        suite = read(files)
        assert [case.prompt for case in suite.cases] == ["Hi"]
        assert told(suite) == [("warning", "eval-file", 1)]

    def test_commands_are_left_out(self) -> None:
        entry = {"prompt": "Hi", "assertions": [{"check": "exists", "cmd": ["rm", "-rf", "/"]}, "Greets."]}
        suite = read({"evals/evals.json": json.dumps({"evals": [entry]})})
        assert [check.settings["text"] for check in suite.cases[0].checks] == ["Greets."]
        assert told(suite) == [("warning", "eval-code", 1)]

    def test_problems_name_the_line(self) -> None:
        written = json.dumps(
            {"evals": [{"prompt": "a", "assertions": ["x"]}, {"id": 2, "assertions": ["x"]}]}, indent=2
        )
        suite = read({"evals/evals.json": written})
        [problem] = suite.problems
        assert (problem.severity, problem.field, problem.line) == ("error", "evals/evals.json", 9)
        assert problem.message == "`evals[1]`: The case has no message and no inputs."
        assert not suite.is_usable

    def test_trigger_queries_are_not_cases(self) -> None:
        queries = [{"query": "a", "should_trigger": True}]
        assert not read({"evals/triggers.json": json.dumps(queries)}).cases
        assert not read({"evals/evals.json": json.dumps({"evals": queries})}).cases


OWN = """\
artifact: classify
threshold: 0.5
trials: 3
checks:
  - {type: one_of, values: [refund, return]}
cases:
  - id: first
    inputs: {message: money back}
    expected: refund
  - inputs: {message: hello}
    expected: {label: other}
    split: held-out
    checks:
      - {type: json_subset, weight: 2}
      - {type: pattern, check: no_match, pattern: sorry}
      - {type: cost, max: 0.01, not: true}
      - The answer is polite.
"""


class TestOwn:
    def test_cases_have_checks_of_their_own_or_those_of_the_file(self) -> None:
        suite = read({"evals/cases.yaml": OWN})
        first, second = suite.cases
        assert suite.is_usable
        assert (suite.trials, suite.pass_threshold) == (3, 0.5)
        assert (first.artifact, first.inputs, first.label) == ("classify", {"message": "money back"}, "refund")
        assert first.checks == (Check(type="one_of", settings={"values": ["refund", "return"]}),)
        assert second.split == "held_out"
        assert [(one.type, one.weight, one.negate) for one in second.checks] == [
            ("json_subset", 2, False),
            ("pattern", 1, False),
            ("cost", 1, True),
            ("expectation", 1, False),
        ]

    def test_an_expected_output_alone_is_compared(self) -> None:
        lines = ['{"inputs": {"n": 1}, "expected": "One"}', "", '{"inputs": {"n": 2}, "expected": 2}']
        suite = read({"evals/cases.jsonl": "\n".join(lines)})
        assert [case.checks[0].type for case in suite.cases] == ["normalized", "equals"]

    def test_inputs_without_checks_leave_the_decision_to_the_artifact(self) -> None:
        [case] = read({"evals/cases.json": '[{"inputs": {"n": 1}}]'}).cases
        assert case.checks == ()

    def test_numbers_of_inputs_are_numbers_however_yaml_writes_them(self) -> None:
        text = (
            "cases:\n  - id: 1.10\n    inputs: {price: 10.50, share: 1e-3, paid: True, code: '10.50', number: 007}\n"
            "    expected: {total: 10.50}\n    checks: [{type: json_subset}, {type: number, value: 10.50, tolerance: 0.10}]\n"
        )
        suite = read({"evals/cases.yaml": text})
        [case] = suite.cases
        assert suite.is_usable
        assert case.id == "1.10"
        assert case.inputs == {"price": 10.5, "share": 0.001, "paid": True, "code": "10.50", "number": "007"}
        assert case.expected == {"total": 10.5}

    @pytest.mark.parametrize("opposite", ["yes", "True", "'true'", "1"])
    def test_an_opposite_that_is_not_true_or_false_is_an_error(self, opposite: str) -> None:
        suite = read({"evals/cases.yaml": f"- prompt: Hi\n  checks: [{{type: contains, value: a, not: {opposite}}}]\n"})
        assert told(suite)[0] == ("error", "eval-check", 2)

    def test_a_mistake_is_an_error_with_a_fix(self) -> None:
        lines = ['{"inputs": {}, "checks": ["ok"]}', "", '{"inputs": {}, "checks": [{"type": "equls", "value": 1}]}']
        suite = read({"evals/cases.jsonl": "\n".join(lines)})
        assert told(suite) == [("error", "eval-check", 3)]
        assert suite.problems[0].hint == "Did you mean 'equals'?"

    @pytest.mark.parametrize(
        "check",
        [
            {"type": "number", "value": "many"},
            {"type": "number", "value": 10**400},
            {"type": "number", "value": 1, "tolerance": 10**400},
            {"type": "f1", "values": ["a"], "min": 10**400},
            {"type": "contains", "values": []},
            {"type": "contains", "value": "x", "mode": "some"},
            {"type": "f1", "values": ["a"], "min": "high"},
            {"type": "cost"},
            {"type": "latency", "max_ms": -1},
            {"type": "rubric"},
            {"type": "pattern", "check": "match", "pattern": "(?=x)"},
            {"type": "structural", "check": "json_schema", "schema": {"type": "thing"}},
            {"type": "equals", "value": 1, "ignore_spaces": True},
            {"type": "one_of"},
            {},
            7,
        ],
    )
    def test_a_check_with_bad_settings_is_an_error(self, check: object) -> None:
        suite = read({"evals/cases.json": json.dumps({"cases": [{"inputs": {}, "checks": [check]}]})})
        assert [one.code for one in suite.problems if one.severity == "error"] == ["eval-check"] * len(suite.problems)
        assert not suite.is_usable

    def test_an_unknown_split_is_held_out(self) -> None:
        suite = read({"evals/cases.json": '[{"inputs": {}, "split": "tset"}]'})
        assert suite.cases[0].split == "held_out"
        assert told(suite) == [("warning", "eval-setting", 1)]

    def test_unknown_fields_are_reported(self) -> None:
        suite = read({"evals/cases.json": '{"cases": [{"input": {}, "inputs": {}}]}'})
        assert suite.problems[0].hint == "Did you mean 'inputs'?"


WAZA = """\
name: explainer-eval
skill: explainer
config: {trials_per_task: 3, timeout_seconds: 60, parallel: true, workers: 2, model: some-model}
metrics: [{name: task_completion, weight: 1, threshold: 0.8}]
graders:
  - {type: code, name: long, config: {assertions: ["len(output) > 10", "open('x')"]}}
  - {type: text, name: clean, weight: 2, config: {not_contains: [error], regex_match: [x+]}}
  - {type: file, name: made, config: {must_exist: [a]}}
tasks: ["tasks/*.yaml"]
"""
TASK = """\
id: loop
name: Explain a loop
tags: [python]
inputs:
  prompt: Explain this.
  files: [{path: loop.py}, {path: note.txt, content: inline}]
expected:
  output_contains: [loop]
  behavior: {max_tokens: 100, required_tools: [read]}
graders:
  - {type: prompt, name: judge, config: {prompt: Is it clear?}}
  - {type: skill_invocation, name: used, config: {mode: any_order, required_skills: [explainer]}}
  - {type: json_schema, name: form, config: {schema_file: schema.json}}
"""


class TestWaza:
    def test_tasks_get_their_graders_and_those_of_the_eval(self) -> None:
        files = {
            "eval.yaml": WAZA,
            "tasks/a.yaml": TASK,
            "fixtures/loop.py": "for",
            "schema.json": '{"type": "object"}',
        }
        suite = read(files)
        [case] = suite.cases
        assert (suite.skill, suite.trials, suite.timeout_seconds, suite.concurrency) == ("explainer", 3, 60, 2)
        assert (case.id, case.name, case.label, case.prompt) == ("loop", "Explain a loop", "python", "Explain this.")
        assert [one.text for one in case.files] == ["for", "inline"]
        assert [(one.type, one.weight, one.negate) for one in case.checks] == [
            ("contains", 1, False),
            ("tokens", 1, False),
            ("expectation", 1, False),
            ("skill_used", 1, False),
            ("structural", 1, False),
            ("length", 1, False),
            ("contains", 1, True),
            ("pattern", 1, False),
        ]
        assert sorted(told(suite)) == [
            ("warning", "eval-check", 8),
            ("warning", "eval-check", 9),
            ("warning", "eval-code", 6),
        ]

    def test_disabled_tasks_and_conversations_are_skipped(self) -> None:
        off = "id: a\nenabled: false\ninputs: {prompt: x}\n"
        turns = "id: b\ninputs: {prompt: x, follow_up_prompts: [y]}\n"
        suite = read({"eval.yaml": WAZA, "tasks/a.yaml": off, "tasks/b.yaml": turns})
        assert not suite.cases
        assert ("warning", "eval-case", 2) in told(suite)

    def test_a_single_task_in_the_file_is_read(self) -> None:
        file = {"skill": "s", "config": {}, "tasks": {"id": "a", "inputs": {"prompt": "x"}, "graders": []}}
        suite = read({"eval.yaml": json.dumps({**file, "graders": [{"type": "text", "config": {"contains": ["y"]}}]})})
        assert [case.id for case in suite.cases] == ["a"]

    def test_a_task_cannot_be_outside_the_folder(self) -> None:
        suite = read({"eval.yaml": WAZA.replace("tasks/*.yaml", "../*.yaml")})
        assert ("warning", "eval-file", 9) in told(suite)

    @pytest.mark.parametrize(
        ("expression", "kind"),
        [
            ("len(output) >= 5 and 'a' in output", ["length", "contains"]),
            ("'a' in output or 'b' in output", ["contains"]),
            ("any(word in output.lower() for word in ['a', 'b'])", ["contains"]),
            ("not re.search('\\\\d+', output)", ["pattern"]),
            ("__import__('os').system('true')", []),
            ("output == 'x'", []),
            ("'a' in output or len(output) > 3", []),
            ("(" * 400, []),
        ],
    )
    def test_simple_expressions_become_checks_and_nothing_runs(self, expression: str, kind: list[str]) -> None:
        grader = {"type": "code", "name": "g", "config": {"assertions": [expression]}}
        eval_file = {"skill": "s", "config": {}, "graders": [grader], "tasks": [{"id": "a", "inputs": {"prompt": "x"}}]}
        suite = read({"eval.yaml": json.dumps(eval_file)})
        assert [check.type for case in suite.cases for check in case.checks] == kind
        assert bool(kind) != any(one.code == "eval-code" for one in suite.problems)


PROMPTFOO = """\
prompts: ["Say {{word}} to {{who}}."]
providers: [some:model]
evaluateOptions: {repeat: 2, maxConcurrency: 9}
defaultTest:
  vars: {who: Ann}
  assert: [{type: latency, threshold: 500}]
tests:
  - description: greeting
    threshold: 0.5
    vars: {word: [hi, ho]}
    assert:
      - {type: not-icontains-any, value: "x,y", weight: 2}
      - {type: equals, value: "{{word}}"}
  - file://more/*.yaml
"""


class TestPromptfoo:
    def test_each_prompt_with_each_combination_of_variables_is_a_case(self) -> None:
        suite = read(
            {
                "promptfooconfig.yaml": PROMPTFOO,
                "more/a.yaml": "- vars: {word: bye}\n  assert: [{type: cost, threshold: 1}]",
            }
        )
        assert suite.is_usable
        assert (suite.trials, suite.concurrency) == (2, 9)
        assert [(case.id, case.prompt, case.threshold) for case in suite.cases] == [
            ("1.1", "Say hi to Ann.", 0.5),
            ("1.2", "Say ho to Ann.", 0.5),
            ("2", "Say bye to Ann.", None),
        ]
        assert [(one.type, one.weight, one.negate) for one in suite.cases[0].checks] == [
            ("contains", 2, True),
            ("equals", 1, False),
            ("latency", 1, False),
        ]
        assert suite.cases[1].checks[1].settings == {"value": "ho"}

    @pytest.mark.parametrize(
        ("assertion", "code"),
        [
            ({"type": "javascript", "value": "process.exit()"}, "eval-code"),
            ({"type": "python", "value": "file://x.py"}, "eval-code"),
            ({"type": "webhook", "value": "https://example.com"}, "eval-code"),
            ({"type": "similar", "value": "x"}, "eval-check"),
            ({"type": "trajectory:tool-used", "value": "x"}, "eval-check"),
            ({"type": "regex", "value": "(?<=a)b"}, "eval-check"),
            ({"type": "contains"}, "eval-check"),
            ({"type": "is-json", "value": "file://../schema.json"}, "eval-file"),
            ({"type": 5}, "eval-check"),
            ("contains x", "eval-check"),
        ],
    )
    def test_what_cannot_be_checked_is_left_out_and_reported(self, assertion: object, code: str) -> None:
        test = {"assert": [assertion, {"type": "contains", "value": "ok"}]}
        suite = read({"promptfooconfig.json": json.dumps({"prompts": ["Hi"], "tests": [test]})})
        assert "contains" in [check.type for check in suite.cases[0].checks]
        assert [one.code for one in suite.problems] == [code]
        assert suite.is_usable

    @pytest.mark.parametrize(
        ("assertion", "check", "negate"),
        [
            ({"type": "is-json"}, {"type": "structural", "check": "format", "format": "json"}, False),
            ({"type": "not-regex", "value": "a"}, {"type": "pattern", "check": "match", "pattern": "a"}, True),
            ({"type": "skill-used", "value": "a:b"}, {"skill": "a:b"}, False),
            ({"type": "not-skill-used", "value": {"name": "b"}}, {"skill": "b"}, True),
            ({"type": "starts-with", "value": "Dear"}, {"value": "Dear"}, False),
            (
                {"type": "contains-all", "value": ["a", 1]},
                {"values": ["a", "1"], "mode": "all", "ignore_case": False},
                False,
            ),
            ({"type": "llm-rubric", "value": "Is kind."}, {"text": "Is kind."}, False),
        ],
    )
    def test_assertions_become_checks(self, assertion: dict, check: dict, negate: bool) -> None:
        suite = read({"promptfooconfig.json": json.dumps({"prompts": ["Hi"], "tests": [{"assert": [assertion]}]})})
        [made] = suite.cases[0].checks
        assert (made.settings, made.negate) == (check, negate)

    @pytest.mark.parametrize(
        "prompt", ["{{ word | upper }}", "{% if word %}x{% endif %}", "{{missing}}", "{{code}}", "{{secret}}"]
    )
    def test_a_template_that_needs_more_than_variables_skips_the_test(self, prompt: str) -> None:
        variables = {"word": "hi", "code": "file://a.js", "secret": "file://../../etc/passwd"}
        test = {"vars": variables, "assert": [{"type": "equals", "value": "x"}]}
        suite = read({"promptfooconfig.json": json.dumps({"prompts": [prompt], "tests": [test]})})
        assert not suite.cases
        assert len([one for one in suite.problems if one.severity == "warning"]) == 1

    def test_a_chat_prompt_gives_the_message_of_its_user(self) -> None:
        chat = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Say {{word}}"}]
        config = {
            "prompts": ["file://chat.json"],
            "tests": [{"vars": {"word": "hi"}, "assert": [{"type": "equals", "value": "hi"}]}],
        }
        suite = read({"promptfooconfig.json": json.dumps(config), "chat.json": json.dumps(chat)})
        assert suite.cases[0].prompt == "Say hi"
        assert told(suite) == [("warning", "eval-setting", 1)]

    def test_prompts_of_a_file_with_windows_line_ends_are_told_apart(self) -> None:
        config = "prompts: [file://prompts.txt]\ntests: [{assert: [{type: contains, value: a}]}]\n"
        suite = read({"promptfooconfig.yaml": config, "prompts.txt": "One\r\n---\r\nTwo\r\n"})
        assert [case.prompt for case in suite.cases] == ["One", "Two"]

    def test_an_assert_set_shares_its_weight(self) -> None:
        inner = [{"type": "contains", "value": "a"}, {"type": "contains", "value": "b"}]
        test = {"assert": [{"type": "assert-set", "weight": 3, "assert": inner}]}
        suite = read({"promptfooconfig.json": json.dumps({"prompts": ["Hi"], "tests": [test]})})
        assert [check.weight for check in suite.cases[0].checks] == [1.5, 1.5]


def test_upskill_tests_are_read() -> None:
    tests = [
        {
            "input": "Write it",
            "context": {"files": {"a.txt": "A"}},
            "expected": {"contains": ["x", "y"]},
            "validator": "z",
        }
    ]
    suite = read({"skill_meta.json": json.dumps({"name": "writer", "tests": tests})})
    [case] = suite.cases
    assert (suite.skill, case.prompt, case.files[0].text) == ("writer", "Write it", "A")
    assert case.checks[0].settings["values"] == ["x", "y"]
    assert told(suite) == [("warning", "eval-code", 1)]


class TestSuite:
    def test_eval_files_are_found_by_their_places(self) -> None:
        paths = [
            "SKILL.md",
            "evals/a.json",
            "evals/x/eval.yaml",
            "evals/x/task.yaml",
            "eval.yaml",
            "data/eval.yaml",
            "cases.json",
        ]
        assert find_suite_paths(paths) == ["eval.yaml", "evals/a.json", "evals/x/eval.yaml"]

    def test_all_files_of_a_folder_are_merged(self, tmp_path: Path) -> None:
        (tmp_path / "evals").mkdir()
        (tmp_path / "SKILL.md").write_text("---\nname: a\ndescription: b\n---\n")
        (tmp_path / "evals" / "cases.yaml").write_text("threshold: 0.5\ncases: [{id: 1, inputs: {}}]\n")
        (tmp_path / "evals" / "evals.json").write_text('{"evals": [{"id": 1, "prompt": "x", "assertions": ["y"]}]}')
        (tmp_path / "evals" / "notes.json").write_text('{"other": "tool"}')
        suite = read_suite(tmp_path, "mine")
        assert suite.is_usable
        assert suite.skill == "mine"
        assert [(case.id, case.threshold) for case in suite.cases] == [("1", None), ("1-2", 1.0)]
        assert [case.id for case in read_suite(tmp_path / "evals" / "evals.json").cases] == ["1"]

    def test_the_same_id_twice_in_a_file_is_reported(self) -> None:
        suite = read({"evals/cases.json": '[{"id": "a", "inputs": {}}, {"id": "a", "inputs": {"n": 1}}]'})
        assert [case.id for case in suite.cases] == ["a", "a-2"]
        assert [one.code for one in suite.problems] == ["eval-id"]

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("eval.yaml", "config: {}\ntasks: ['tests/*.yaml']\n"),
            ("promptfooconfig.yaml", "prompts: [Hi]\ntests: ['tests/*.yaml']\n"),
        ],
    )
    def test_a_broken_link_among_named_files_is_an_error(self, tmp_path: Path, name: str, text: str) -> None:
        (tmp_path / name).write_text(text)
        (tmp_path / "tests").mkdir()
        (tmp_path / "tests" / "a.yaml").symlink_to("missing.yaml")
        suite = read_suite(tmp_path / name)
        assert [(one.severity, one.code, one.field) for one in suite.problems][:1] == [
            ("error", "eval-unreadable", "tests/a.yaml")
        ]

    def test_links_out_of_the_folder_are_not_followed(self, tmp_path: Path) -> None:
        secret = tmp_path / "secret.txt"
        secret.write_text("secret")
        skill = tmp_path / "skill"
        (skill / "evals").mkdir(parents=True)
        (skill / "notes.txt").symlink_to(secret)
        entry = {"prompt": "Read", "files": ["notes.txt"], "assertions": ["x"]}
        (skill / "evals" / "evals.json").write_text(json.dumps({"evals": [entry]}))
        assert not read_suite(skill).cases

    @pytest.mark.parametrize(
        ("path", "content"),
        [
            ("evals/evals.json", b"\xff\xfe{"),
            ("evals/evals.json", b"{" * 100_000),
            ("evals/evals.json", b"[" * 60 + b"]" * 60),
            ("evals/evals.json", b'{"evals": [{"prompt": NaN}]}'),
            ("evals/evals.json", b'{"evals": [{"prompt": 1e999}]}'),
            ("evals/cases.jsonl", b'{"inputs": {"n": 1e999}}\n'),
            ("evals/cases.yaml", b"a: &a [1]\nb: *a\n"),
            ("evals/cases.yaml", b"cases: [\n"),
            ("evals/cases.yaml", b"a: !!python/object:os.system x\n"),
            ("evals/cases.jsonl", b'{"inputs": {}}\n{broken\n'),
            ("evals/cases.json", b" " * 5_000_000),
            ("evals/cases.json", b""),
        ],
    )
    def test_an_unreadable_file_is_an_error(self, path: str, content: bytes) -> None:
        suite = read({path: content})
        assert not suite.is_usable
        assert suite.problems[0].code == "eval-unreadable"

    @pytest.mark.parametrize("place", ["missing", "missing/evals.json"])
    def test_a_missing_place_is_an_error(self, tmp_path: Path, place: str) -> None:
        assert [one.code for one in read_suite(tmp_path / place).problems] == ["eval-shape"]

    def test_a_named_file_of_another_tool_is_an_error(self) -> None:
        assert [one.code for one in read({"a.json": '{"x": 1}'}, file="a.json").problems] == ["eval-shape"]

    def test_there_is_a_limit_to_the_number_of_cases(self) -> None:
        suite = read({"evals/cases.json": json.dumps([{"inputs": {"n": n}} for n in range(2_001)])})
        assert len(suite.cases) == 2_000
        assert [one.code for one in suite.problems] == ["eval-too-many"]


def test_the_example_of_the_docs_is_read() -> None:
    page = (Path(__file__).parents[3] / "docs" / "evals.md").read_text()
    example = page.partition('```yaml title="evals/cases.yaml"\n')[2].partition("```")[0]
    suite = read({"evals/cases.yaml": example, "evals/files/team.md": "The team."})
    assert suite.problems == ()
    assert [(case.id, len(case.checks)) for case in suite.cases] == [("money-back", 2), ("greeting", 4)]


def test_a_case_has_a_message_or_inputs() -> None:
    suite = read({"evals/cases.json": '[{"inputs": {}, "prompt": "Hi", "checks": ["Greets."]}]'})
    assert told(suite)[0] == ("error", "eval-case", 1)
