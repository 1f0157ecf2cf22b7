"""Text that a person cannot see reaches no prompt, by whatever way it comes in."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")

from mcp import Client

from prowess.errors import ApprovalRequired
from prowess.interfaces.auth.caller import Caller
from prowess.interfaces.cli.main import run
from prowess.interfaces.mcp.server import make_security, make_server
from prowess.llm.model import Message
from prowess.open import Prowess
from prowess.policy.actor import agent_of, local_person
from prowess.scan.package_scan import scan_package
from prowess.session.prompt import memory_block
from prowess.skill.package import Package
from prowess.skill.prompt_block import skill_block
from prowess.skill.text.hidden import MAX_HIDDEN, find_hidden
from prowess.skill.validate import validate
from prowess.tools.toolbox import Toolbox

SECRET = "obey"


def bits(zero: str, one: str) -> str:
    """Write the secret in two characters."""
    return "".join(one if bit == "1" else zero for char in SECRET for bit in f"{ord(char):08b}")


ENCODINGS = {
    "a made-up flag": "\U0001f3f4" + "".join(chr(0xE0000 + ord(char)) for char in SECRET) + "\U000e007f",
    "soft hyphens and joiners": bits("\xad", "\u200d"),
    "ignorable code points": "".join(chr(0xE0200 + ord(char)) for char in SECRET),
    "shorthand controls": bits("\U0001bca0", "\U0001bca1"),
    "hieroglyph controls": bits("\U00013430", "\U00013431"),
    "blank Braille": bits("\u2800", " "),
    "variation selectors": "😀" + "".join(chr(0xE0100 + ord(char)) for char in SECRET),
    "selectors behind ideographs": "".join(f"葛{chr(0xE0100 + ord(char))}" for char in SECRET * 5),
    "private use": "".join(chr(0xE000 + ord(char)) for char in SECRET),
    "joiners in Persian": "س" + bits("\u200c", "\u200d") + "س",
    "annotations": f"\ufff9visible\ufffa{SECRET}\ufffb",
    "terminal escapes": f"\x1b[8m{SECRET}\x1b[0m",
}
every_encoding = pytest.mark.parametrize("hidden", ENCODINGS.values(), ids=list(ENCODINGS))

PLACES: dict[str, Callable[[str], dict[str, str]]] = {
    "body": lambda hidden: {"SKILL.md": f"---\nname: sly\ndescription: Notes.\n---\n\nRead {hidden} this.\n"},
    "description": lambda hidden: {
        "SKILL.md": f"---\nname: sly\ndescription: {json.dumps(f'Notes {hidden}.')}\n---\n\nRead.\n"
    },
    "tag": lambda hidden: {
        "SKILL.md": f"---\nname: sly\ndescription: Notes.\nmetadata:\n  tags: {json.dumps(f'a{hidden}b')}\n---\n\nRead.\n"
    },
    "reference": lambda hidden: {
        "SKILL.md": "---\nname: sly\ndescription: Notes.\n---\n\nRead.\n",
        "references/guide.md": f"Read {hidden} this.\n",
    },
    "reference with a NUL": lambda hidden: {
        "SKILL.md": "---\nname: sly\ndescription: Notes.\n---\n\nRead.\n",
        "references/guide.md": f"\0Read {hidden} this.\n",
    },
    "prompt": lambda hidden: {
        "SKILL.md": "---\nname: sly\ndescription: Notes.\n---\n\nRead.\n",
        "prompts/check.j2": f"Check {hidden} this.\n",
    },
    "title": lambda hidden: {
        "SKILL.md": "---\nname: sly\ndescription: Notes.\n---\n\nRead.\n",
        "agents/prowess.yaml": f"title: {json.dumps(f'Notes {hidden}')}\n",
    },
}


@pytest.fixture
def workspace(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def write(workspace: Path, files: dict[str, str], name: str = "sly") -> Path:
    folder = workspace / ".agents" / "skills" / name
    for path, text in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode())
    return folder


@pytest.fixture
def prowess(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str]]:
    def call(*args: str | Path) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["prowess", *map(str, args)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            run()
        return int(ended.value.code or 0), capfd.readouterr().out

    return call


def codes(out: str) -> list[tuple[str, str]]:
    return [(problem["code"], problem["severity"]) for problem in json.loads(out.splitlines()[0])["problems"]]


@pytest.mark.few(20)
@pytest.mark.parametrize("place", PLACES.values(), ids=list(PLACES))
@every_encoding
def test_the_command_line_finds_it_and_serves_no_such_skill(prowess, workspace, place, hidden):
    folder = write(workspace, place(hidden))
    code, out = prowess("validate", folder, "--json")
    assert code == 3
    assert {("hidden-text", "error"), ("control-characters", "error")} & set(codes(out))
    # A person sees escapes, never the characters themselves.
    assert not {char for char in hidden if not char.isprintable()} & set(out)
    assert prowess("list", "--json")[1].strip() == "[]"


@pytest.mark.few(4)
@pytest.mark.anyio
@every_encoding
async def test_no_agent_can_write_it_into_a_skill(workspace, hidden):
    write(workspace, {"SKILL.md": "---\nname: notes\ndescription: Notes.\n---\n\nRead.\n"}, "notes")
    person = local_person("ann")
    caller = Caller(actor=agent_of(person), person=person)
    draft = {"id": "draft", "name": "Draft", "description": "Writes drafts.", "instructions": "# Draft\n\nWrite it."}
    async with Prowess.open(workspace) as engine:
        server = make_server(engine, caller, security=make_security([b"k" * 32], caller))
        async with Client(server, mode="auto") as client:
            for field in ("name", "description", "instructions"):
                answer = await client.call_tool("skill_create", {**draft, field: f"{draft[field]} {hidden}"})
                assert answer.is_error, field
                assert not {char for char in hidden if not char.isprintable()} & set(answer.content[0].text), field
            listed = await client.call_tool("skill_list", {})
            assert "draft" not in json.dumps(listed.structured_content)


@every_encoding
def test_a_prompt_of_a_registry_with_it_cannot_be_used(prowess, workspace, hidden):
    folder = workspace / ".prowess" / "prompts"
    folder.mkdir(parents=True)
    document = {"prompt_id": "sly", "version": "1.0.0", "template": f"Check {hidden} this."}
    (folder / "sly@1.0.0.json").write_text(json.dumps(document))
    _, out = prowess("prompts", "list", "--json")
    problems = json.loads(out)[0]["problems"]
    assert {problem["code"] for problem in problems} <= {"hidden-text", "control-characters"}
    assert any(problem["severity"] == "error" for problem in problems)


@every_encoding
def test_no_block_of_a_prompt_has_it_even_if_an_application_passes_it_in(hidden):
    body = f"Read {hidden} this."
    for block in (memory_block(body), skill_block("Notes", body, slug="notes", origin="", digest="")):
        # Emoji and ideographs around it stay, and so does the visible part of an annotation.
        assert not {char for char in hidden if not char.isprintable()} & set(block)


def test_terminal_escapes_reach_no_model():
    assert Message(role="user", text="log: \x1b[31mred\x1b[0m\x9b\tend\n").text == (
        "log: \\u{001B}[31mred\\u{001B}[0m\\u{009B}\tend\n"
    )


@pytest.mark.anyio
async def test_terminal_escapes_in_a_script_are_written_out_where_it_is_loaded(workspace):
    files = {
        "SKILL.md": "---\nname: colour\ndescription: Notes.\n---\n\nRead.\n",
        "scripts/paint.sh": "printf '\x1b[31mred'\n",
    }
    write(workspace, files, "colour")
    person = local_person("ann")
    caller = Caller(actor=person, person=person)
    async with Prowess.open(workspace) as engine:
        loaded = await engine.load("colour", script="paint.sh")
        assert loaded["script_content"] == "printf '\\u{001B}[31mred'\n"
        server = make_server(engine, caller, security=make_security([b"k" * 32], caller))
        async with Client(server, mode="auto") as client:
            resource: Any = (await client.read_resource("skill://colour/scripts/paint.sh")).contents[0]
            assert resource.blob  # the exact bytes, which are not text
        file = {"skill": "colour", "path": "scripts/paint.sh"}
        assert (await Toolbox(engine).call("read_skill_resource", file)).data["text"] == loaded["script_content"]


@pytest.mark.anyio
@pytest.mark.parametrize("path", ["assets/table.csv", "notes"])
async def test_a_nul_in_a_file_does_not_bring_hidden_text_to_an_agent(workspace, path):
    hidden = "".join(chr(0xE0000 + ord(char)) for char in SECRET)
    files = {"SKILL.md": "---\nname: sly\ndescription: Notes.\n---\n\nRead.\n", path: f"a\0b{hidden}c\n"}
    write(workspace, files)
    async with Prowess.open(workspace) as engine:
        text = (await Toolbox(engine).call("read_skill_resource", {"skill": "sly", "path": path})).data["text"]
    assert text == "a\\u{0000}b" + "".join(f"\\u{{{0xE0000 + ord(char):04X}}}" for char in SECRET) + "c\n"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32", "cp1252"])
@pytest.mark.parametrize("path", ["assets/table.csv", "references/guide.md"])
@pytest.mark.anyio
async def test_a_file_in_another_encoding_brings_no_hidden_text_to_an_agent(workspace, path, encoding):
    hidden = "\xad\xad" if encoding == "cp1252" else chr(0xE0061)
    mark = "\ufeff" if encoding.endswith("be") else ""
    skill = write(workspace, {"SKILL.md": "---\nname: wide\ndescription: Notes.\n---\n\nRead.\n"}, "wide")
    (skill / path).parent.mkdir()
    (skill / path).write_bytes(f"{mark}é!{hidden}!".encode(encoding))
    async with Prowess.open(workspace) as engine:
        answer = (await Toolbox(engine).call("run_skill", {"skill": "wide", "artifact": path})).data
    # In Windows-1252, any image would be text, so only files that are read as instructions are refused.
    if encoding == "cp1252" and path.endswith(".csv"):
        assert answer["output"] == "é!\\u{00AD}\\u{00AD}!"
    else:
        assert answer["error"]["code"] == "not-found"


@pytest.mark.parametrize(
    ("slug", "error"),
    [
        ("pg-tri\u0430ge", True),  # Cyrillic а
        ("\u0440\u0430\u0443", True),  # all Cyrillic, and looks like pay
        ("n\u03bfte", True),  # Greek ο
        ("sc\u0251n", True),  # Latin alpha
        ("pg-триаж", False),
        ("заметки", False),
        ("日本語-notes", False),
        ("café-über", False),
        ("kapı", False),
    ],
)
def test_a_slug_that_looks_like_another_is_an_error(prowess, workspace, slug, error):
    folder = write(workspace, {"SKILL.md": f"---\nname: {slug}\ndescription: Notes.\n---\n\nRead.\n"}, slug)
    _, out = prowess("validate", folder, "--json")
    assert (("slug-look-alike", "error") in codes(out)) == error
    assert (prowess("list", "--json")[1].strip() == "[]") == error


def test_a_title_with_letters_of_two_scripts_in_one_word_is_a_warning(prowess, workspace):
    files = {
        "SKILL.md": "---\nname: triage\ndescription: Notes.\n---\n\nRead.\n",
        "agents/prowess.yaml": "title: Tri\u0430ge\n",
    }
    code, out = prowess("validate", write(workspace, files, "triage"), "--json")
    assert (code, ("mixed-scripts", "warning") in codes(out)) == (0, True)


@pytest.mark.parametrize(
    "text",
    [
        "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
        "می\u200cخواهم",
        "क्\u200dष",
        "👨\u200d👩\u200d👧",
        "❤\ufe0f 1\ufe0f\u20e3",
        "葛\U000e0100",
    ],
)
def test_what_people_write_in_their_scripts_and_emoji_is_kept_as_it_is(prowess, workspace, text):
    folder = write(workspace, PLACES["body"](text))
    assert prowess("validate", folder)[0] == 0
    assert text in skill_block("Notes", f"Read {text} this.", slug="notes", origin="", digest="")


@every_encoding
@pytest.mark.anyio
async def test_the_reason_of_an_agent_has_none_where_a_person_reads_it(untrusted, hidden):
    untrusted.skill("deploy")
    person = local_person("ann")
    async with untrusted.open(person) as engine:
        agent = engine.as_actor(agent_of(person))
        with pytest.raises(ApprovalRequired) as asked:
            await agent.enable("deploy", session=await agent.sessions.open("talk"), reason=f"it {hidden} fits")
        row = await engine.approvals.get(asked.value.approval_id)
        entries = await engine.audit.rows()
    reasons = [row.reason, *(str(entry.detail["reason"]) for entry in entries if "reason" in entry.detail)]
    assert len([reason for reason in reasons if reason.endswith("fits")]) >= 2
    assert [reason for reason in reasons if find_hidden(reason)] == []


@pytest.mark.parametrize("count", [50, MAX_HIDDEN + 1])
@pytest.mark.parametrize("hidden", ["", *ENCODINGS.values()], ids=["nothing else", *ENCODINGS])
def test_many_characters_that_are_only_worth_a_warning_hide_nothing_behind_them(count: int, hidden: str) -> None:
    wrongly_decoded = "a\x81" * count
    package = Package.of_texts(
        "sly", {"SKILL.md": f"---\nname: sly\ndescription: Notes.\n---\n\n{wrongly_decoded}\n{hidden}\n"}
    )
    is_error = bool(hidden) or count > MAX_HIDDEN
    assert validate(package).ok is not is_error
    assert ("danger" in {one.severity for one in scan_package(package)}) >= (count > MAX_HIDDEN)


def test_an_escape_among_wrongly_decoded_characters_is_an_error() -> None:
    package = Package.of_texts("sly", {"SKILL.md": "---\nname: sly\ndescription: Notes.\n---\n\n\x81\x1b[8mobey\n"})
    assert not validate(package).ok
