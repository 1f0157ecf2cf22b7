"""Functions, requests and commands that could never be called: whoever wrote them is told at once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from prowess.errors import Invalid, Problem
from prowess.skill.package import File, Package
from prowess.skill.validate import accept, validate

GOOD = "def execute(args, ctx):\n    return 1\n"
PACKAGES = {"requirements": ["numpy"]}


def package(files: dict[str, str]) -> Package:
    return Package.written("tool", [File(path=path, content=text.encode()) for path, text in files.items()])


def devai(code: str, file: str = "execute.py", **fields: Any) -> Package:
    manifest = {"id": "tool", "name": "Tool", "description": "Does something.", **fields}
    return package({"skill.json": json.dumps(manifest), file: code})


def found(judged: Package, code: str) -> list[Problem]:
    return [problem for problem in validate(judged).problems if problem.code == code]


def test_a_function_that_is_no_python_is_refused_with_its_line() -> None:
    with pytest.raises(Invalid, match=r"execute\.py cannot run: expected ':'.*line 2"):
        accept(devai("\ndef execute(args, ctx)\n    return 1\n"))


def test_a_function_with_a_byte_order_mark_is_accepted() -> None:
    assert accept(devai(f"\ufeff{GOOD}")).problems == accept(devai(GOOD)).problems


def test_a_file_without_the_function_is_refused() -> None:
    [problem] = found(devai("def run(args, ctx): ...\n"), "function-invalid")
    assert (problem.severity, problem.line, problem.field) == ("error", None, "execute.py")
    assert "Define execute(args, ctx)" in problem.hint


def code_template(code: str) -> Package:
    artifact = {"kind": "code_template", "name": "Script", "content": code}
    about = {"name": "Tool", "description": "Does something."}
    return Package.written(
        "tool.json", [File(path="tool.json", content=json.dumps({**about, "artifacts": [artifact]}).encode())]
    )


def test_a_code_template_that_is_no_python_is_a_warning_with_its_line() -> None:
    [problem] = found(code_template("x = {{ n }}\nsubmit(x +)\n"), "code-template-invalid")
    assert problem.severity == "warning"
    assert problem.message == "Script cannot run: invalid syntax (line 2 of the script)."
    files = {"SKILL.md": "---\nname: tool\ndescription: Does something.\n---\nRun it.\n", "agents/prowess.yaml": ""}
    [problem] = found(package({**files, "code/a.py": "x = 1\nsubmit(x +)\n"}), "code-template-invalid")
    assert (problem.severity, problem.field, problem.line) == ("warning", "code/a.py", 2)


def test_placeholders_of_a_code_template_are_no_fault() -> None:
    code = "for p in {{ pages }}:\n    x = f'{{ p.name }} {p}'\nsubmit({'a': '{{ t }}', 'b': {{ n }} + 1})\n"
    assert not found(code_template(code), "code-template-invalid")


@pytest.mark.parametrize("code", ["{% for p in pages %}\nx = 1\n{% endfor %}", "x = '{{ name | upper }}'"])
def test_what_only_prompts_support_is_a_warning_in_a_code_template(code: str) -> None:
    [problem] = found(code_template(code), "code-template-invalid")
    assert problem.severity == "warning"
    assert "which only prompts support (line 1 of the script)" in problem.message


def test_an_empty_prompt_template_is_a_warning() -> None:
    artifact = {"kind": "prompt_template", "name": "Ask"}
    content = json.dumps({"name": "Tool", "description": "Does something.", "artifacts": [artifact]})
    [problem] = found(package({"tool.json": content}), "template-empty")
    assert (problem.severity, problem.field) == ("warning", "Ask")


def test_other_languages_and_good_functions_are_left_alone() -> None:
    assert not found(devai(GOOD), "function-invalid")
    assert not found(devai("export const execute = (", "execute.ts"), "function-invalid")


@pytest.mark.parametrize(
    ("imported", "line"),
    [
        ('import type { SkillContext } from "@devai/skill-runtime";', None),
        ('import { run_skill } from "prowess";\nimport { createHash } from "node:crypto";', None),
        ('const text = `import fs from "fs"`;', None),
        ('import fs from "fs";', 1),
        ("\nimport {\n  helper,\n} from './lib.ts';", 2),
        ('import "npm:left-pad";', 1),
    ],
)
def test_a_module_that_a_function_cannot_import_is_a_warning(imported: str, line: int | None) -> None:
    code = f"{imported}\nexport async function execute(args, ctx) {{ return 1; }}\n"
    problems = found(devai(code, "execute.ts"), "function-invalid")
    assert [(problem.severity, problem.line) for problem in problems] == ([("warning", line)] if line else [])


@pytest.mark.parametrize(
    ("code", "fields", "told"),
    [
        (GOOD, PACKAGES, ["runtime: native"]),
        ("# /// script\n# dependencies = ['numpy']\n# ///\n" + GOOD, {}, ["runtime: native"]),
        (GOOD, {**PACKAGES, "runtime": "native"}, []),
        (GOOD, {}, []),
    ],
)
def test_packages_without_the_native_runtime_are_a_warning(code: str, fields: Any, told: list[str]) -> None:
    problems = found(devai(code, **fields), "requirements-unused")
    assert [problem.severity for problem in problems] == ["warning" for _ in told]
    assert all(words in problem.hint for words, problem in zip(told, problems, strict=True))


def test_packages_of_a_typescript_function_are_a_warning_whatever_its_runtime() -> None:
    code = "export async function execute() {}"
    [problem] = found(devai(code, "execute.ts", runtime="native", **PACKAGES), "requirements-unused")
    assert "Python" in problem.message


def test_packages_for_scripts_are_used() -> None:
    files = {"SKILL.md": "---\nname: tool\ndescription: Does.\n---\nRun it.", "scripts/a.py": "print()"}
    sidecar = {"agents/prowess.yaml": "requirements: [numpy]\n", "execute.py": GOOD}
    assert not found(package({**files, **sidecar}), "requirements-unused")


@pytest.mark.parametrize(
    ("handler", "more"), [("{{ program }} x", ""), ("/bin/ls", ""), ("ls 'x", ""), ("ls", ", output: xml")]
)
def test_a_command_that_cannot_be_read_is_a_warning(handler: str, more: str) -> None:
    text = f"skill_id: tool\ndescription: Does.\nimplementation: {{type: cli_command, handler: {json.dumps(handler)}{more}}}\n"
    [problem] = found(package({"tool.yaml": text}), "command-invalid")
    assert problem.severity == "warning"


@pytest.mark.parametrize(
    ("implementation", "told"),
    [
        ({"type": "http_call", "handler": "GET https://api.example.com/items/{{ id }}"}, []),
        ({"type": "http_call", "handler": "GET https://api.example.com/items/{id}"}, ["single-braces"]),
        ({"type": "http_call", "handler": "GET https://api.example.com/items/{{ idd }}"}, ["template-undeclared"]),
        (
            {"type": "http_call", "handler": "GET https://api.example.com/items", "query": {"q": "{{ word }}"}},
            ["template-undeclared"],
        ),
        ({"type": "cli_command", "handler": "jq {x}", "args": ["{{ id }}", "{{ id.part }}"]}, []),
        (
            {"type": "cli_command", "handler": "echo {id}", "args": ["{{ word }}"]},
            ["single-braces", "template-undeclared"],
        ),
    ],
)
def test_a_placeholder_that_no_input_fills_is_a_warning(implementation: Any, told: list[str]) -> None:
    descriptor = {
        "skill_id": "tool",
        "description": "Does something.",
        "input_schema": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
        "implementation": implementation,
    }
    problems = validate(package({"tool.yaml": json.dumps(descriptor)})).problems
    assert [problem.code for problem in problems if problem.severity == "warning"] == told


def test_a_placeholder_of_a_code_template_that_is_not_declared_is_a_warning() -> None:
    sidecar = "parameters: {type: object, properties: {topic: {type: string}}}\n"
    files = {
        "SKILL.md": "---\nname: tool\ndescription: Does something.\n---\nRun it.\n",
        "agents/prowess.yaml": sidecar,
    }
    [problem] = found(package({**files, "code/a.py": "print({{ topic }}, '{{ topc.name }}')\n"}), "template-undeclared")
    assert (problem.severity, problem.field) == ("warning", "code/a.py")
    assert "uses {{ topc }}" in problem.message
