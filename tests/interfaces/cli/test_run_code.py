"""Run the code of skills from the command line: its output, and the advice after a refusal."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("approver")

PROWESS = Path(sys.executable).parent / "prowess"
SIDECAR = "artifacts:\n  - {path: go.py, kind: code_template, name: go}\n"
LONG = "import prowess\nprowess.checkpoint('half')\nprowess.submit(prowess.llm_query('What follows?'))\n"


@pytest.fixture
def bring(workspace):
    """Return a function that writes a skill with code into the workspace."""

    def put(slug: str, code: str, file: str = "execute.py", **manifest: object) -> Path:
        folder = workspace / ".agents" / "skills" / slug
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "skill.json").write_text(
            json.dumps({"id": slug, "name": slug, "description": f"Does {slug}.", **manifest})
        )
        (folder / file).write_text(code)
        return folder

    return put


@pytest.fixture
def built(home, sandbox_home):
    """Make the interpreter of the sandbox available in this home."""
    (home / ".prowess").mkdir(mode=0o700, exist_ok=True)
    (home / ".prowess" / "sandbox").symlink_to(sandbox_home / "sandbox")


@pytest.mark.usefixtures("built")
def test_what_a_function_logs_and_prints_is_shown_beside_what_it_gives_and_where_it_fails(prowess, bring):
    code = "def execute(args, ctx):\n    ctx.log('halfway')\n    print('a\\nb')\n    return {'success': args['well'], 'result': 7}"
    bring("tool", code, parameters={"well": {"type": "boolean"}})
    ran = prowess("run", "tool", "-i", "well:=true")
    assert (ran.code, ran.out) == (0, "7\n")
    assert "  log: halfway\n" in ran.err
    assert "  printed: a\n  printed: b\n" in ran.err
    failed = prowess("run", "tool", "-i", "well:=false")
    assert (failed.code, "  log: halfway\n" in failed.err) == (8, True)
    trace = failed.err.partition("`prowess traces show ")[2].partition("`")[0]
    assert "halfway" in prowess("traces", "show", trace).out
    assert prowess("run", "tool", "-i", "well:=true", "--json").json["parts"][0]["printed"] == "a\nb\n"


@pytest.mark.usefixtures("built")
def test_a_run_that_was_refused_a_name_of_the_environment_says_why_and_what_to_do(prowess, bring, monkeypatch):
    monkeypatch.delenv("PAINT_KEY", raising=False)
    folder = bring("painter", "def execute(args, ctx):\n    return len(ctx.env)\n", env=["PAINT_KEY"])
    asked = prowess("run", "painter")
    assert (asked.code, asked.out) == (0, "0\n")
    assert "PAINT_KEY: not allowed; the skill requests it (`prowess env allow painter PAINT_KEY`)" in asked.err
    allowed = prowess("env", "allow", "painter", "PAINT_KEY")
    assert "is not set in this environment" in allowed.err
    assert "allowed, but not set in this environment" in prowess("env", "list", "painter").out
    assert "PAINT_KEY: allowed, but not set in this environment\n" in prowess("run", "painter").err
    (folder / "execute.py").write_text("def execute(args, ctx):\n    return 1 + len(ctx.env)\n")
    assert "PAINT_KEY: not allowed" in prowess("run", "painter").err
    prowess("env", "allow", "painter", "PAINT_KEY")
    monkeypatch.setenv("PAINT_KEY", "s3cret-value")
    given = prowess("run", "painter")
    assert (given.out, "PAINT_KEY:" in given.err) == ("2\n", False)


@pytest.mark.long
@pytest.mark.usefixtures("built")
def test_a_run_that_is_interrupted_after_a_checkpoint_says_how_it_goes_on(prowess, write_skill, workspace):
    folder = write_skill("long")
    (folder / "agents").mkdir()
    (folder / "agents" / "prowess.yaml").write_text(SIDECAR)
    (folder / "go.py").write_text(LONG)
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        call = [PROWESS, "run", "long", "-m", "compatible:slow"]
        with subprocess.Popen(
            call, env={**os.environ, "PROWESS_MODEL_URL": url}, stderr=subprocess.PIPE, text=True
        ) as running:
            connection, _ = server.accept()
            running.send_signal(signal.SIGINT)
            _, err = running.communicate(timeout=60)
        connection.close()
    [trace] = prowess("traces", "list", "--json").json
    how = f"prowess run long --resume {trace['id'][:8]}"
    assert (running.returncode, how in err) == (130, True), err
    shown = prowess("traces", "show", trace["id"])
    assert how in shown.out
    assert prowess("traces", "show", trace["id"], "--json").json["resumable"] is True


TYPESCRIPT = "export function execute() { return 5; }\n"


def test_the_interpreter_of_the_sandbox_is_built_only_for_what_runs_in_it_and_may(prowess, bring, home):
    kept = home / ".prowess" / "sandbox"
    bring("native", "def execute(args, ctx):\n    return 1\n", runtime="native")
    bring("typed", TYPESCRIPT, "execute.ts")
    bring("plain", "def execute(args, ctx):\n    return 1\n")
    asked = prowess("run", "native")
    assert (asked.code, kept.exists()) == (5, False)
    prowess("approvals", "approve", prowess("approvals", "--json").json[0]["id"])
    assert prowess("run", "native").out == "1\n"
    assert prowess("run", "typed").out == "5\n"
    prowess("policy", "set", "skill_enablement_policy", "prompt-user")
    assert prowess("run", "plain").code == 5
    assert not kept.exists()


def test_a_person_without_a_terminal_is_told_how_to_answer_their_own_question(prowess, bring):
    bring("native", "def execute(args, ctx):\n    return 1\n", runtime="native")
    asked = prowess("run", "native")
    [waiting] = prowess("approvals", "--json").json
    assert f"`prowess approvals show {waiting['id'][:8]}`" in asked.err
    assert "something else" not in asked.err


def test_a_skill_of_scripts_alone_says_which_to_name(prowess, write_skill):
    folder = write_skill("text-tools")
    (folder / "scripts").mkdir()
    (folder / "scripts" / "count.py").write_text("print(1)\n")
    ran = prowess("run", "text-tools")
    assert (ran.code, "Name the script to run: count.py" in ran.err) == (3, True), ran.err


def test_what_code_asks_for_is_shown_with_its_tool_and_runtime(prowess, bring):
    bring("typed-tool", TYPESCRIPT, "execute.ts", hosts=["api.example.com"], env=["PAINT_KEY"])
    shown = prowess("show", "typed-tool").out
    assert "tool: skill_typed_tool" in shown
    assert "runtime: deno" in shown
    assert "to connect to api.example.com;" in shown
    assert "PAINT_KEY" in shown
