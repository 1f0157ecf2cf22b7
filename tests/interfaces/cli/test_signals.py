"""SIGTERM and SIGHUP end a command, also a background job of a script, which has SIGINT ignored."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread, get_ident

import click
import pytest

from prowess.interfaces.cli.signals import catch_termination, run_async

PROWESS = str(Path(sys.executable).parent / "prowess")
SIGNALS = [(signal.SIGTERM, 143), (signal.SIGHUP, 129)]
SIDECAR = "artifacts:\n  - {path: go.py, kind: code_template, name: go}\n"
LONG = "import prowess\nprowess.submit(prowess.llm_query('What follows?'))\n"


@contextmanager
def started(*command: str, ignored: tuple[signal.Signals, ...] = (signal.SIGINT,)) -> Iterator[subprocess.Popen[str]]:
    """Start a command with signals ignored, as a shell does for the background jobs of a script."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in ignored}
    try:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(command, text=True, **pipes)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def silent_model(monkeypatch) -> Iterator[socket.socket]:
    """Start a server that accepts the request of `-m compatible:silent` and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        monkeypatch.setenv("PROWESS_MODEL_URL", f"http://127.0.0.1:{server.getsockname()[1]}/v1")
        yield server


def descendants(process: int) -> set[int]:
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = {process}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {process}


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.few(1)
@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_a_job_in_the_background_of_a_script_ends_on_a_signal(prowess, sample, number, code):
    prowess("enable", "commit-messages")
    script = f"{PROWESS} events --follow --after 0 --json & echo $!; wait $!; echo $?"
    with started("sh", "-c", script, ignored=()) as shell:
        assert shell.stdout is not None
        process = int(shell.stdout.readline())
        assert json.loads(shell.stdout.readline())["number"] == 1
        os.kill(process, number)
        assert shell.stdout.readline() == f"{code}\n"
        assert shell.communicate(timeout=60) == ("", "Terminated. Everything saved so far is kept.\n")


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_a_signal_that_does_not_interrupt_the_wait_ends_an_idle_command(number, code):
    main = get_ident()

    def send() -> None:
        while sys._current_frames()[main].f_code.co_name != "select":
            pass
        # To this thread: the main one goes on waiting, as it does after a signal that came just before it began to.
        signal.pthread_kill(get_ident(), number)

    async def idle() -> None:
        Thread(target=send).start()
        await asyncio.Event().wait()

    with catch_termination(), pytest.raises(click.exceptions.Exit) as ended:
        run_async(idle)
    assert ended.value.exit_code == code


@pytest.mark.few(1)
@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_a_run_that_a_signal_ends_is_traced_and_leaves_no_process(
    prowess, write_skill, home, sandbox_home, silent_model, number, code
):
    write_skill("long", **{"go.py": LONG, "agents__prowess.yaml": SIDECAR})
    (home / ".prowess").mkdir(mode=0o700, exist_ok=True)
    (home / ".prowess" / "sandbox").symlink_to(sandbox_home / "sandbox")
    with started(PROWESS, "run", "long", "-m", "compatible:silent") as running:
        connection, _ = silent_model.accept()
        children = descendants(running.pid)
        running.send_signal(number)
        _, err = running.communicate(timeout=60)
        connection.close()
    assert (running.returncode, "Terminated" in err, "Traceback" in err) == (code, True, False)
    assert children
    assert not any(map(is_running, children))
    [trace] = prowess("traces", "list", "--json").json
    assert trace["status"] == "cancelled"


@pytest.mark.few(1)
@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_a_command_without_an_engine_ends_on_a_signal(office, number, code):
    with started(PROWESS, "match", "--batch", "-") as matching:
        assert matching.stdin is not None
        assert matching.stdout is not None
        matching.stdin.write('{"id": 1, "text": "read this invoice"}\n')
        matching.stdin.flush()
        assert json.loads(matching.stdout.readline())["id"] == 1
        matching.send_signal(number)
        assert matching.wait(timeout=60) == code
        assert matching.stderr is not None
        assert "Traceback" not in matching.stderr.read()


@pytest.mark.long
def test_a_command_under_nohup_outlives_its_terminal(prowess, sample):
    prowess("enable", "commit-messages")
    with started(PROWESS, "events", "--follow", "--after", "0", "--json", ignored=(signal.SIGHUP,)) as following:
        assert following.stdout is not None
        assert json.loads(following.stdout.readline())["number"] == 1
        following.send_signal(signal.SIGHUP)
        prowess("disable", "commit-messages")
        assert json.loads(following.stdout.readline())["number"] == 2
        following.terminate()
        assert following.wait(timeout=60) == 143


def test_a_reader_that_closes_the_pipe_is_no_error(office):
    reader, writer = os.pipe()
    os.close(reader)
    try:
        ran = subprocess.run([PROWESS, "list"], stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    finally:
        os.close(writer)
    assert (ran.returncode, ran.stderr) == (0, "")


INTERRUPTED_IMPORT = """
import os, signal, sys
from importlib.abc import MetaPathFinder

class Interrupt(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "click":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
sys.argv = ["prowess", "--version"]
from prowess.interfaces.cli import run
run()
"""


INTERRUPTED_WORK = """
import os, signal, sys
from prowess.interfaces.cli import run
from prowess.threads import is_cancelled

waiting = [{place!r}]

def interrupt(event, arguments):
    if waiting and arguments and waiting[0] in str(arguments[0]):
        waiting.clear()
        os.kill(os.getpid(), signal.SIGINT)
        while not is_cancelled():
            os.sched_yield()

sys.addaudithook(interrupt)
sys.argv = ["prowess", {words}]
run()
"""


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("source/one", "Nothing was changed."),
        (".agents/skills/.prowess-tmp", "1 of 2 skills installed. To continue, run the same command again."),
    ],
)
def test_an_installation_that_ctrl_c_stops_ends_at_the_next_skill_and_says_what_is_installed(
    workspace, tmp_path, prowess, place, said
):
    for name in ("one", "two"):
        (tmp_path / "source" / name).mkdir(parents=True)
        text = f"---\nname: {name}\ndescription: Counts to {name}.\n---\nCount.\n"
        (tmp_path / "source" / name / "SKILL.md").write_text(text)
    words = ("add", str(tmp_path / "source"), "--all", "--yes")
    script = INTERRUPTED_WORK.format(place=place, words=str(words)[1:-1])
    with started(sys.executable, "-c", script, ignored=()) as process:
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, f"{said}\n\nStopped. Everything saved so far is kept.\n")
    assert len(prowess("verify", "--json").json) == said.startswith("1")
    assert prowess(*words).code == 0
    assert [skill["differences"] for skill in prowess("verify", "--json").json] == [[], []]


INTERRUPTED_LIBRARY = """
import os, signal, sys
from importlib.abc import MetaPathFinder
from prowess.interfaces.cli import run
from prowess.threads import is_cancelled

class Interrupt(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "pydantic_ai.exceptions":
            os.kill(os.getpid(), signal.SIGINT)
            while not is_cancelled():
                os.sched_yield()

sys.meta_path.insert(0, Interrupt())
sys.argv = ["prowess", "chat", "hello", "-m", "compatible:silent"]
try:
    run()
finally:
    print("pydantic_ai.models.openai" in sys.modules)
"""


def test_ctrl_c_while_the_library_of_models_is_imported_ends_the_import(workspace, silent_model):
    with started(sys.executable, "-c", INTERRUPTED_LIBRARY, ignored=()) as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "False\n"), err
    assert "Stopped. The conversation is kept.\nContinue with: prowess chat" in err


@pytest.mark.parametrize(("ignored", "code", "said"), [((), -signal.SIGINT, False), ((signal.SIGINT,), 0, True)])
def test_ctrl_c_while_modules_are_imported_ends_the_command_without_a_traceback(ignored, code, said):
    with started(sys.executable, "-c", INTERRUPTED_IMPORT, ignored=ignored) as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, bool(out), err) == (code, said, "")


def test_ctrl_c_is_reported_once_the_command_has_begun():
    begun = INTERRUPTED_IMPORT.replace('"click"', '"prowess.interfaces.cli.commands.skills"').replace(
        "--version", "list"
    )
    with started(sys.executable, "-c", begun, ignored=()) as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err.strip()) == (130, "", "Stopped. Everything saved so far is kept.")


def test_an_import_that_ctrl_c_stops_says_how_many_skills_it_saved(sample, tmp_path):
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "SKILL.md").write_text("---\nname: plain\ndescription: Counts to one.\n---\nCount.\n")
    # The module that checks schemas is imported for the second path, when the first is stored.
    at_second = INTERRUPTED_IMPORT.replace('"click"', '"jsonschema_rs"').replace(
        '"--version"', f'"import", "{tmp_path}/plain", "../more/word-count"'
    )
    with started(sys.executable, "-c", at_second, ignored=()) as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert re.match(r"[12] skills? imported. To import the others, run the same command again.\n\nStopped", err)
