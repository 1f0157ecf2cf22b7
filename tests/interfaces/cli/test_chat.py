"""Talk to the agent from the command line: one message, a terminal, approvals, slash commands, and interruptions."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import socket
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from prowess.agent.updates import HelperUpdated, TextWritten, ToolEnded
from prowess.errors import NotFound
from prowess.interfaces.cli.chat import SLASH_COMMANDS, Chat
from prowess.interfaces.cli.conversation_output import ChatScreen
from prowess.llm.scripted import ScriptedModel


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., str]:
    """Return a function that writes a script for a model and returns the model's name."""

    def write(*steps: Any) -> str:
        path = tmp_path / f"script-{len(list(tmp_path.glob('script-*')))}.json"
        path.write_text(json.dumps(list(steps)))
        return f"scripted:{path}"

    return write


@pytest.fixture
def trusted(prowess, approver, office) -> Path:
    """Make a workspace of accepted skills the current folder."""
    assert prowess("trust").code == 0
    return office


@pytest.fixture
def careful(prowess, trusted) -> Path:
    """The same, where every skill that is enabled needs an approval."""
    assert prowess("policy", "set", "skill_enablement_policy", "prompt-user").code == 0
    return trusted


ENABLE = {"calls": [{"name": "enable_skill", "arguments": {"skill_slug": "sql-tuner", "reason": "a slow query"}}]}


def last_conversation(prowess) -> Any:
    return prowess("conversations", "--json").json[0]


def test_a_message_is_answered_on_stdout_and_what_happened_is_on_stderr(prowess, trusted, script):
    model = script({"calls": [{"name": "search_skills", "arguments": {"query": "minutes"}}]}, "Hello **Ann**.")
    done = prowess("chat", "good", "morning", "--model", model)
    assert (done.code, done.out) == (0, "Hello **Ann**.\n")
    assert '✓ search_skills(query="minutes") → ' in done.err
    assert re.search(r"scripted:.* · 2 steps · [\d,]+ tokens in, \d+ out · .* · Skills \(0 / 16,000\)", done.err)


def test_a_call_for_a_skill_that_does_not_exist_is_marked_as_failed(prowess, trusted, script):
    calls = [{"name": name, "arguments": {"skill": "none"}} for name in ("load_skill", "enable_skill")]
    shown = prowess("chat", "hello", "--model", script({"calls": calls}, "No.")).err
    for name in ("load_skill", "enable_skill"):
        assert f"✗ {name}(skill=\"none\") → Skill 'none' not found." in shown


def test_the_decision_and_the_budget_are_shown(prowess, trusted, script):
    done = prowess("chat", "explain this slow SQL query and propose an index", "--model", script("Add an index."))
    assert "◆ activate sql-tuner" in done.err
    assert re.search(r"Skills \([1-9]\d* / 16,000\)  sql-tuner", done.err)
    assert "Decided: activate sql-tuner" in prowess("why", "--last").out
    recorded = prowess("why", "--last", "--session", last_conversation(prowess)["id"], "--json").json
    assert recorded["skill"] == "sql-tuner"


def test_a_conversation_goes_on_where_it_was(prowess, trusted, script):
    assert prowess("chat", "my name is Ann", "--model", script("Hello.")).code == 0
    known = script({"when": "my name is Ann", "text": "Ann."})
    assert prowess("chat", "--continue", "what is my name?", "--model", known).out == "Ann.\n"
    found = last_conversation(prowess)
    again = script({"when": "what is my name?", "text": "Still Ann."})
    assert prowess("chat", "-c", found["id"][:8], "and now?", "--model", again).out == "Still Ann.\n"
    assert [one["turns"] for one in prowess("conversations", "--json").json] == [3]


def test_updates_are_lines_of_json(prowess, trusted, script):
    done = prowess("chat", "explain this slow SQL query", "--json", "--model", script("Add an index."))
    kinds = [line["kind"] for line in done.lines]
    assert kinds[0] == "conversation"
    assert kinds[-1] == "turn_ended"
    assert {"decided", "text", "skills_changed"} <= set(kinds)
    assert done.lines[0]["id"] == last_conversation(prowess)["id"]
    assert "".join(line["text"] for line in done.lines if line["kind"] == "text") == "Add an index."
    assert (done.lines[-1]["state"], done.lines[-1]["text"]) == ("done", "Add an index.")


def test_a_message_can_come_from_stdin(prowess, trusted, script, pipe):
    pipe(b"good morning\n")
    assert prowess("chat", "--model", script({"when": "good morning", "text": "Hello."})).out == "Hello.\n"
    pipe(b"  \n")
    empty = prowess("chat", "--model", script("Hello."))
    assert (empty.code, "Missing message" in empty.err) == (2, True)


def test_without_a_terminal_a_turn_waits_and_says_how_to_answer_and_go_on(prowess, careful, script):
    waiting = prowess("chat", "hello", "--model", script(ENABLE))
    assert waiting.code == 5
    assert 'enable_skill(skill_slug="sql-tuner", reason="a slow query") needs an approval' in waiting.err
    found = last_conversation(prowess)
    assert found["state"] == "waiting"
    show = re.search(r"`prowess (approvals show \w+)`", waiting.err)
    go_on = re.search(r"`prowess (chat --conversation \w+ --resume)`", waiting.err)
    assert show
    assert go_on
    assert "a slow query" in prowess(*show[1].split()).out

    still = prowess(*go_on[1].split(), "--model", script("unused"))
    assert (still.code, last_conversation(prowess)["state"]) == (5, "waiting")
    assert prowess("approvals", "approve", show[1].split()[-1]).code == 0
    done = prowess(*go_on[1].split(), "--model", script({"when": "enabled", "text": "Now I know."}))
    assert (done.code, done.out) == (0, "Now I know.\n")
    assert last_conversation(prowess)["skills"] == ["sql-tuner"]


def test_a_person_at_a_terminal_is_shown_the_card_and_the_turn_goes_on(prowess, careful, script, terminal):
    done = terminal("chat", "hello", "--model", script(ENABLE, "Now I know."), answers=["y\n"])
    assert done.code == 0
    card, _, rest = done.seen.partition("Approve exactly this?")
    assert "sql-tuner" in card
    assert "a slow query" in card
    assert "Now I know." in rest
    assert last_conversation(prowess)["skills"] == ["sql-tuner"]


@pytest.mark.long
def test_a_denial_is_told_to_the_model(prowess, careful, script, terminal):
    model = script(ENABLE, {"when": "denied", "text": "Then not."})
    assert "Then not." in terminal("chat", "hello", "--model", model, answers=["n\n"]).seen
    assert last_conversation(prowess)["skills"] == []


def test_nothing_approves_without_a_person(prowess, careful, script):
    for option in ("--yes", "-y", "--auto-approve"):
        assert prowess("chat", "hello", option, "--model", script("Hello.")).code == 2
    waiting = prowess("chat", "hello", "--json", "--model", script(ENABLE))
    assert (waiting.code, waiting.lines[-1]["state"]) == (5, "waiting")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("hi", "--resume", "--continue"), "--resume and a message"),
        (("--resume",), "Choose the conversation"),
        (("hi", "--continue", "-c", "abcd"), "cannot be combined"),
        (("hi", "--role", "scout", "--continue"), "--role is for a new conversation"),
    ],
)
def test_options_that_contradict_each_other_are_refused(prowess, workspace, given, words):
    refused = prowess("chat", *given)
    assert (refused.code, words in refused.err) == (2, True)


def test_an_unknown_conversation_is_said_to_be_unknown(prowess, trusted, script):
    assert prowess("chat", "hi", "--continue").code == 4
    for command in (("chat", "hi", "-c", "nothing"), ("conversations", "show", "nothing")):
        assert prowess(*command).code == 4


def test_a_turn_that_fails_says_why_and_keeps_what_was_said(prowess, trusted, script):
    failed = prowess("chat", "hello", "--model", script({"error": {"code": "run-failed", "message": "Too hot."}}))
    assert (failed.code, failed.out) == (8, "")
    assert "Failed: Too hot." in failed.err
    assert [
        one["text"]
        for one in prowess("conversations", "show", last_conversation(prowess)["id"], "--json").json["messages"]
    ] == ["hello"]


def test_without_a_model_nothing_is_kept(prowess, trusted):
    failed = prowess("chat", "hello")
    assert failed.code == 7
    assert "No model is configured" in failed.err
    assert prowess("conversations", "--json").json == []
    assert prowess("sessions", "--json").json == []


def test_escapes_of_a_model_never_reach_the_terminal(prowess, trusted, script):
    hostile = "\x1b]0;owned\x07\x1b[2Jplain \u202etxet\x9b31m"
    model = script({"calls": [{"name": f"search{hostile}", "arguments": {hostile: hostile}}]}, hostile)
    done = prowess("chat", f"hi {hostile}", "--model", model)
    shown = prowess("conversations", "show", last_conversation(prowess)["id"])
    exported = prowess("conversations", "export", last_conversation(prowess)["id"])
    listed = prowess("conversations")
    for text in (done.out, done.err, shown.out, exported.out, listed.out):
        assert not re.search(r"[\x1b\x9b\x07\u202e]", text), text
    assert "plain" in done.out


def test_a_conversation_is_listed_shown_exported_and_deleted(prowess, trusted, script, tmp_path):
    assert prowess("conversations").out == "No conversations yet. `prowess chat` starts one.\n"
    model = script({"calls": [{"name": "list_skills", "arguments": {}}]}, "You have five skills.")
    prowess("chat", "what can you do?", "--model", model)
    found = last_conversation(prowess)
    assert found["id"][:8] in prowess("conversations", "list").out
    shown = prowess("conversations", "show", found["id"][:6]).out
    assert "> what can you do?" in shown
    assert "✓ list_skills() → 5 skills" in shown
    assert "You have five skills." in shown
    assert "## User\n\nwhat can you do?" in prowess("conversations", "export", found["id"][:6]).out
    target = tmp_path / "chat.json"
    assert prowess("conversations", "export", found["id"], "-o", target).code == 0
    assert json.loads(target.read_text())["messages"][0]["text"] == "what can you do?"
    again = prowess("conversations", "export", found["id"], "-o", target)
    assert (again.code, "already exists" in again.err) == (6, True)
    assert prowess("conversations", "delete", found["id"][:6], "--json").json == {"deleted": found["id"]}
    assert prowess("conversations", "--json").json == []


def take_terminal() -> None:
    """Make the standard input the terminal of this process. Tests that run in the background pass on an ignored Ctrl-C."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def typing(command_server: Any) -> Callable[..., str]:
    """Return a function that types lines on a real terminal, each once its prompt has come, and returns what was seen.

    A line may be a function, which gets the function that types. Ctrl-C reaches only a `process` of its own, whose
    terminal this is.
    """

    def run_typed(
        *args: str, lines: Sequence[str | Callable[[Callable[[str], object]], object]], process: bool = False
    ) -> str:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
        environment = {**os.environ, "PAGER": "cat", "TERM": "dumb"}
        environment.pop("PROWESS_APPROVER_TOKEN", None)
        files = (os.ttyname(theirs),) * 3
        left = list(lines)

        def write(text: str) -> None:
            os.write(ours, text.encode())

        def run_and_close() -> int:
            try:
                if not process:
                    return command_server.run(*args, environment=environment, folder=Path.cwd(), files=files)
                program = [sys.executable, "-m", "prowess", *args]
                made = subprocess.Popen(
                    program,
                    stdin=theirs,
                    stdout=theirs,
                    stderr=theirs,
                    env=environment,
                    start_new_session=True,
                    preexec_fn=take_terminal,  # noqa: PLW1509
                )
                with made:
                    return made.wait()
            finally:
                os.close(theirs)

        with ThreadPoolExecutor(1) as runner:
            running = runner.submit(run_and_close)
            seen = b""
            try:
                while chunk := os.read(ours, 4096):
                    seen += chunk
                    asks = seen.endswith(b"\n> ") or re.search(rb"\[y\]es[^\n]*: $", seen)
                    if asks and left:
                        line = left.pop(0)
                        write(line) if isinstance(line, str) else line(write)
            except OSError:
                pass
        os.close(ours)
        assert not left, seen.decode()
        assert running.result() == 0, seen.decode()
        return re.sub(r"\x1b\[\?2004[hl]\r?", "", seen.decode()).replace("\r\n", "\n")

    return run_typed


def test_a_terminal_is_a_conversation_with_commands_between_messages(prowess, trusted, script, typing, tmp_path):
    model = script("Hello Ann.", {"when": "good morning", "text": "Add an index."})
    seen = typing(
        "chat",
        "--model",
        model,
        lines=[
            "/cost\n",
            "good morning\n",
            "\n",
            "/halp\n",
            "/help\n",
            "/enable invoice-reader\n",
            "/skills\n",
            "/disable invoice-reader\n",
            "/disable invoice-reader\n",
            "explain this slow SQL query\n",
            "/why\n",
            "/why read this invoice\n",
            "/cost\n",
            "/memory\n",
            "/memory remember The database is PostgreSQL 18.\n",
            "/memory\n",
            "/memory forget\n",
            f"/export {tmp_path}/chat.md\n",
            "/export\n",
            "/new\n",
            "/why\n",
            "/quit\n",
        ],
    )
    assert "Nothing was sent yet." in seen
    assert "Hello Ann." in seen
    assert "Unknown command /halp. Did you mean /help?" in seen
    assert "/memory [remember TEXT|forget ID]" in seen
    assert re.search(r"Enabled invoice-reader. Skills \(\d+ / 16,000\)", seen)
    assert re.search(r"invoice-reader +invoice-reader +\d+", seen)
    assert "Disabled invoice-reader. Skills (0 / 16,000)" in seen
    assert seen.count("Error: ") == 1
    assert "Decided: activate sql-tuner" in seen
    assert "invoice-reader: " in seen.partition("/why read this invoice")[2]
    assert "2 turns · " in seen
    assert "No remembered facts." in seen
    assert "The database is PostgreSQL 18." in seen.partition("Remembered as ")[2]
    assert "Use /memory, /memory remember TEXT or /memory forget ID." in seen
    assert "## Assistant\n\nAdd an index." in (tmp_path / "chat.md").read_text()
    assert "## Assistant\n\nAdd an index." in seen
    assert "No decision yet." in seen.partition("Your next message starts a new conversation")[2]
    assert len(prowess("conversations", "--json").json) == 1


@pytest.mark.long
@pytest.mark.parametrize("leave", ["\x04", "/exit\n"])
def test_looking_around_and_leaving_keeps_nothing(prowess, trusted, typing, leave):
    seen = typing("chat", lines=["/help\n", leave])
    assert "Kept." not in seen
    assert prowess("conversations", "--json").json == []


@pytest.mark.long
def test_approvals_are_answered_in_the_conversation(prowess, careful, script, typing):
    other = {"calls": [{"name": "enable_skill", "arguments": {"skill_slug": "meeting-minutes", "reason": "minutes"}}]}
    model = script(ENABLE, {"when": "denied", "text": "Then not."}, other, "Now I know.")
    seen = typing(
        "chat", "--model", model, lines=["hello\n", "n\n", "do it\n", "y\n", "/enable invoice-reader\n", "y\n", "\x04"]
    )
    assert "Then not." in seen
    assert "Now I know." in seen
    assert "Enabled invoice-reader." in seen
    assert f"prowess chat --conversation {last_conversation(prowess)['id'][:8]}" in seen
    assert last_conversation(prowess)["skills"] == ["meeting-minutes", "invoice-reader"]


@pytest.mark.long
def test_a_turn_that_waits_is_asked_about_when_the_conversation_is_opened_again(prowess, careful, script, typing):
    assert prowess("chat", "hello", "--model", script(ENABLE)).code == 5
    seen = typing("chat", "--continue", "--model", script("Now I know."), lines=["y\n", "\x04"])
    assert "Now I know." in seen


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_a_turn_and_keeps_the_conversation(prowess, trusted, script, monkeypatch, number, code):
    async def interrupted(self: ScriptedModel, request: Any) -> Any:
        import asyncio

        yield ""
        signal.raise_signal(number)
        await asyncio.Event().wait()

    with monkeypatch.context() as patch:
        patch.setattr(ScriptedModel, "stream", interrupted)
        stopped = prowess("chat", "hello", "--model", script("Hello."))
    assert (stopped.code, stopped.out) == (code, "")
    assert re.search("Stopped. The conversation is|Terminated. Everything saved so far is", stopped.err)
    assert last_conversation(prowess)["state"] == "stopped"
    command = f"prowess chat --conversation {last_conversation(prowess)['id'][:8]} --resume"
    assert f"Continue with: {command}\n" in stopped.err
    assert prowess(*command.split()[1:], "--model", script("Hello again.")).out == "Hello again.\n"
    again = script({"when": "hello", "text": "Here I am."})
    assert prowess("chat", "--continue", "still there?", "--model", again).out == "Here I am.\n"


@pytest.mark.long
def test_ctrl_c_at_a_terminal_stops_the_turn_and_then_leaves(prowess, trusted, typing, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        monkeypatch.setenv("PROWESS_MODEL_URL", f"http://127.0.0.1:{server.getsockname()[1]}/v1")
        asked: list[socket.socket] = []
        with ThreadPoolExecutor(1) as waiter:

            def send_and_interrupt(write: Callable[[str], object]) -> None:
                # The answer never comes. Ctrl-C is typed once the model is asked. Not at the prompt, too: typed in the instant
                # in which that appears, the line editor misses it.
                waiter.submit(lambda: (asked.append(server.accept()[0]), write("\x03")))
                write("hello\n")

            seen = typing("chat", "--model", "compatible:slow", lines=[send_and_interrupt, "\x04"], process=True)
        for one in asked:
            one.close()
    assert "Stopped. The conversation is kept." in seen
    assert "The conversation is kept. Continue it with" in seen


def test_what_a_helper_does_is_shown_with_its_role_and_never_as_the_answer(capsys):
    ended = {"kind": "tool_ended", "id": "1", "name": "list_skills", "ok": True, "data": {"status": "done"}}
    started = {"kind": "tool_started", "id": "1", "name": "list_skills", "arguments": {"scope": "all"}}
    texts = [{"kind": "text", "text": text} for text in ("Two ", "skills\x1b[2J.")]
    with ChatScreen() as screen:
        for update in (started, ended, *texts):
            screen.show(HelperUpdated(role="scout", update=update))
        screen.show(ToolEnded(id="0", name="delegate", ok=True, data={"status": "done"}))
        screen.show(TextWritten(text="There are two."))

    shown = capsys.readouterr()
    assert shown.out.strip() == "There are two."
    assert '  scout ✓ list_skills(scope="all") → done\n  scout: Two skills' in shown.err
    assert "\x1b[2J" not in shown.err


@pytest.mark.parametrize(
    ("command", "said"),
    [("cost", "Nothing was sent yet"), ("why", "No decision yet"), ("export", "Nothing to export")],
)
def test_a_session_of_a_server_without_a_message_has_nothing_to_show(command, said, capsys):
    class Server:
        """A server that opened a session for `/enable`. A conversation begins with its first message there."""

        def run(self, _: Any) -> Any:
            raise NotFound("No conversation.")

    chat: Any = Chat(Server(), None, conversation="opened")  # pyright: ignore[reportArgumentType]
    SLASH_COMMANDS[command].run(chat, "")
    assert said in capsys.readouterr().out
