"""AgentLayerRules: the handler of a descriptor is a function in a file that lies beside it."""

from __future__ import annotations

import pytest

from prowess.errors import Unavailable
from prowess.sandbox.deno.sandbox import find_deno
from prowess.skill.forms import read_package, write_package
from prowess.skill.package import File, Package
from prowess.skill.text.yaml import load
from prowess.skill.text.yaml_writer import dump

PYTHON = (
    "def execute(args, ctx):\n    return {'sections': [args['topic']]}\n\n\ndef run(args, ctx):\n    return 'ran'\n"
)
TYPESCRIPT = "export async function execute(args, ctx) { return args.topic; }\n"


def descriptor(handler: str, **fields: object) -> str:
    told = {
        "skill_id": "outliner",
        "version": "1.0.0",
        "title": "Outliner",
        "description": "Turns a topic into an outline.",
        "tags": [],
        "implementation": {"type": "ts_function", "handler": handler, "retries": 2},
    }
    return dump({**told, **fields})


def package(files: dict[str, str]) -> Package:
    return Package.written("outliner", [File(path=path, content=text.encode()) for path, text in files.items()])


@pytest.mark.parametrize(
    ("handler", "path", "function", "language"),
    [
        ("execute.ts", "execute.ts", "execute", "typescript"),
        ("./execute.js", "execute.js", "execute", "javascript"),
        ("execute.py", "execute.py", "execute", "python"),
        ("src/outline.py#run", "src/outline.py", "run", "python"),
        ("run", "execute.ts", "run", "typescript"),
        ("execute", "execute.py", "execute", "python"),
    ],
)
def test_the_file_of_a_handler_is_its_function_and_comes_back(
    handler: str, path: str, function: str, language: str
) -> None:
    code = PYTHON if language == "python" else TYPESCRIPT
    before = package({"outliner.yaml": descriptor(handler), path: code})
    reading = read_package(before)
    assert reading.skill is not None
    found = reading.skill.artifact("handler")
    assert (found.path, found.handler, found.language, found.content) == (path, function, language, code)
    assert not [problem for problem in reading.problems if problem.severity != "info"]
    native = write_package(reading.skill, before, "native")
    assert native.left_out == ()
    again = read_package(native.package)
    assert again.skill is not None
    back = write_package(again.skill, native.package, "agentlayerrules")
    assert back.left_out == ()
    assert load(back.package.get("outliner.yaml").content.decode()) == load(descriptor(handler))
    assert back.package.get(path).content == code.encode()


def test_a_descriptor_below_the_top_finds_the_file_beside_it() -> None:
    files = {"skills/outliner.yaml": descriptor("execute.py"), "skills/execute.py": PYTHON, "execute.py": "other = 1"}
    found = read_package(package(files)).skill.artifact("handler")
    assert (found.path, found.content) == ("skills/execute.py", PYTHON)


def test_a_native_function_is_written_beside_its_descriptor() -> None:
    skill_md = "---\nname: outliner\ndescription: Turns a topic into an outline.\n---\nUse it.\n"
    sidecar = "artifacts: [{path: execute.py, handler: run}]\n"
    before = package({"SKILL.md": skill_md, "agents/prowess.yaml": sidecar, "execute.py": PYTHON})
    written = write_package(read_package(before).skill, before, "agentlayerrules").package
    assert written.get("execute.py").content == PYTHON.encode()
    again = read_package(written).skill.artifact("handler")
    assert (again.handler, again.language, again.content) == ("run", "python", PYTHON)


@pytest.mark.parametrize("handler", ["execute.ts", "../execute.ts", "/etc/execute.py", "deep/er.js#run"])
def test_a_file_that_is_not_there_is_a_warning(handler: str) -> None:
    reading = read_package(package({"outliner.yaml": descriptor(handler), "other.txt": ""}))
    assert [problem.code for problem in reading.problems if problem.severity == "warning"] == ["function-missing"]
    assert reading.skill.artifact("handler").content == ""


@pytest.mark.parametrize("handler", ["handlers/outline.run", "outline:run"])
def test_a_handler_that_lies_elsewhere_is_kept_as_it_is(handler: str) -> None:
    found = read_package(package({"outliner.yaml": descriptor(handler), "execute.ts": TYPESCRIPT})).skill.artifact(
        "handler"
    )
    assert (found.handler, found.path, found.content) == (handler, None, "")


@pytest.mark.anyio
@pytest.mark.parametrize("handler", ["execute.py", "src/tool.py#execute"])
async def test_a_descriptor_in_a_skills_folder_runs_with_the_function_beside_it(sandboxed, handler: str) -> None:
    path = handler.partition("#")[0]
    sandboxed.write("outliner", {"outliner.yaml": descriptor(handler), path: PYTHON})
    async with sandboxed.open() as prowess:
        result = await prowess.run("outliner", {"topic": "cats"})
        assert result.data == {"sections": ["cats"]}


@pytest.mark.anyio
async def test_a_descriptor_runs_with_the_typescript_beside_it(place) -> None:
    try:
        find_deno()
    except Unavailable:
        pytest.skip("there is no Deno")
    place.write("outliner", {"outliner.yaml": descriptor("execute.ts"), "execute.ts": TYPESCRIPT})
    async with place.open() as prowess:
        assert (await prowess.run("outliner", {"topic": "cats"})).data == "cats"


@pytest.mark.anyio
async def test_a_descriptor_that_is_imported_brings_its_function_and_keeps_its_form(place, tmp_path) -> None:
    (tmp_path / "outliner.yaml").write_text(descriptor("execute.py"))
    (tmp_path / "execute.py").write_text(PYTHON)
    async with place.open() as prowess:
        await prowess.skills.import_path(tmp_path / "outliner.yaml")
        skill = await prowess.skills.get("outliner")
        assert (skill.form, skill.artifact("handler").content) == ("agentlayerrules", PYTHON)
