"""`prowess spawn`: agents of other makers get a task, the prompt of a role, and our server over MCP."""

from __future__ import annotations

import json
import sys
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest

from prowess.agent.spawn import FOREIGN_AGENTS, McpServer, plan_launch, run_launch
from prowess.errors import Invalid
from prowess.interfaces.cli.commands.spawn import AGENTS, _AgentName

DOCS = Path(__file__).resolve().parents[3] / "docs/roles.md"
SERVER = McpServer(program=("prowess",), options=("--conversation", "c 1"), variables={"PROWESS_HOME": "/h"})


def plan(agent: str, **changes):
    given = {"task": "Do it", "prompt": "Be kind.", "server": SERVER, "folder": Path("/private"), "environment": {}}
    return plan_launch(FOREIGN_AGENTS[agent], **{**given, **changes})


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Put an executable on PATH in place of an agent's."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    def put(name: str, text: str, interpreter: str = "/bin/sh") -> None:
        (folder / name).write_text(f"#!{interpreter}\n{text}")
        (folder / name).chmod(0o755)

    return put


def test_the_command_knows_every_agent_of_the_table():
    assert tuple(FOREIGN_AGENTS) == AGENTS


@pytest.mark.parametrize("row", FOREIGN_AGENTS.values(), ids=AGENTS)
def test_an_agent_is_known_by_the_name_of_its_program_too(prowess, row):
    given = ("Do it", "--role", "qa", "--dry-run", "--json")
    assert prowess("spawn", row.program.upper(), *given).json["agent"] == row.name


@pytest.mark.parametrize(
    ("name", "agent"), [("claude", "claude-code"), ("gemini", "gemini-cli"), ("github-copilot", "copilot-cli")]
)
def test_an_agent_is_known_by_the_name_of_its_product(name, agent):
    assert _AgentName(AGENTS).convert(name, None, None) == agent


def test_the_documentation_has_the_table():
    rows = [
        f"| `{row.name}` | {row.takes_prompt} | {row.takes_server} | {row.verified} |"
        for row in FOREIGN_AGENTS.values()
    ]
    assert "\n".join(rows) in DOCS.read_text("utf-8")


@pytest.mark.parametrize("agent", AGENTS)
def test_each_agent_gets_the_task_the_prompt_and_the_server(agent):
    launch = plan(agent, more=("--model", "x"))
    given = "\n".join((*launch.command, *launch.variables.values(), *launch.files.values()))
    assert launch.command[0] == FOREIGN_AGENTS[agent].program
    assert launch.command[-1].endswith("Do it")
    assert "Be kind." in given
    assert "--model" in launch.command
    assert "c 1" in given or agent == "cursor-cli"


@pytest.mark.parametrize("agent", AGENTS)
def test_a_task_that_looks_like_an_option_stays_a_task(agent):
    command = plan(agent, task="--dangerous").command
    assert "--dangerous" not in command or command[-2:] == ("--", "--dangerous")


@pytest.mark.parametrize("agent", AGENTS)
def test_names_in_braces_in_a_prompt_stay_as_they_are(agent):
    launch = plan(agent, prompt="Use {task} and {servers_file}.")
    given = "\n".join((*launch.command, *launch.files.values()))
    assert "Use {task} and {servers_file}." in given


def test_codex_gets_its_settings_as_toml():
    command = plan("codex", prompt='Say "hi"\n\U0001f680 \x7f').command
    settings = tomllib.loads("\n".join(value for option, value in pairwise(command) if option == "-c"))
    assert settings["developer_instructions"] == 'Say "hi"\n\U0001f680 \x7f'
    assert settings["mcp_servers"]["prowess"] == {
        "command": "prowess",
        "args": ["mcp", "--conversation", "c 1"],
        "env": {"PROWESS_HOME": "/h"},
        "default_tools_approval_mode": "approve",
        "required": True,
        "startup_timeout_sec": 60,
    }


def test_opencode_keeps_the_settings_that_the_user_has():
    own = json.dumps({"model": "m", "mcp": {"mine": {}}, "instructions": ["a.md"]})
    config = json.loads(
        plan("opencode", environment={"OPENCODE_CONFIG_CONTENT": own}).variables["OPENCODE_CONFIG_CONTENT"]
    )
    assert (config["model"], set(config["mcp"]), config["instructions"]) == (
        "m",
        {"mine", "prowess"},
        ["a.md", "/private/AGENTS.md"],
    )
    with pytest.raises(Invalid, match="not a JSON object"):
        plan("opencode", environment={"OPENCODE_CONFIG_CONTENT": "[]"})


def test_an_agent_is_started_with_the_environment_of_the_user_and_its_exit_code_is_returned(
    prowess, workspace, program, monkeypatch
):
    monkeypatch.setenv("MY_OWN", "value")
    monkeypatch.delenv("PYDANTIC_DISABLE_PLUGINS", raising=False)
    program(
        "claude",
        'echo "$MY_OWN$PYDANTIC_DISABLE_PLUGINS"; for last; do :; done; echo "$last"; ls -ld "$(dirname "$5")" | cut -c1-10; exit 3',
    )
    ran = prowess("spawn", "claude-code", "--role", "juggler", "Three balls", "--json")
    assert ran.code == 3
    assert ran.json["output"] == "value\nThree balls\ndrwx------\n"
    assert ran.json["exit_code"] == 3
    assert ran.json["loads"] == []
    assert "You are a juggler specialist." in ran.json["command"]
    assert not Path(ran.json["command"][5]).parent.exists()


def test_an_agent_is_started_without_the_tokens_with_which_a_person_approves(
    prowess, workspace, program, monkeypatch, tmp_path
):
    for name in ("PROWESS_APPROVER_TOKEN", "PROWESS_SECRET_KEY", "PROWESS_TOKEN"):
        monkeypatch.setenv(name, "of-the-person-and-of-nobody-else")
    monkeypatch.setenv("MY_OWN", "value")
    program("claude", f"env > {tmp_path}/seen")
    prowess("spawn", "claude-code", "--role", "juggler", "Three balls")
    seen = (tmp_path / "seen").read_text()
    assert "MY_OWN=value" in seen
    assert "of-the-person" not in seen


def test_a_dry_run_starts_nothing_and_prints_the_command(prowess, workspace, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    ran = prowess("spawn", "gemini-cli", "--role", "juggler", "Three balls", "--dry-run")
    assert ran.code == 0
    assert "gemini '--prompt=Three balls'" in ran.out
    assert "GEMINI_SYSTEM_MD=" in ran.out


def test_a_role_that_the_policy_knows_limits_the_tools_of_the_server(prowess, workspace):
    def options(role: str) -> list[str]:
        made = prowess("spawn", "claude-code", "--role", role, "x", "--dry-run", "--json").json
        (servers,) = (text for path, text in made["files"].items() if path.endswith("mcp.json"))
        return json.loads(servers)["mcpServers"]["prowess"]["args"]

    assert options("scout")[-2:] == ["--role", "scout"]
    assert "--role" not in options("reviewer")


def test_a_template_of_a_task_is_filled_with_the_task(prowess, workspace):
    folder = workspace / "templates/roles/juggler"
    folder.mkdir(parents=True)
    (folder / "system_prompt.md").write_text("Juggle.")
    (folder / "task_prompt.md").write_text("Your task: {{ task }}")
    made = prowess(
        "spawn", "codex", "--role", "juggler", "--templates", "templates", "Balls", "--dry-run", "--json"
    ).json
    assert made["command"][-1] == "Your task: Balls"


def test_a_missing_program_is_an_error_that_says_how_to_install_it(prowess, workspace, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    ran = prowess("spawn", "codex", "--role", "qa", "x")
    assert ran.code != 0
    assert "npm install -g @openai/codex" in ran.err


def test_an_agent_without_a_way_to_pass_a_server_says_how_to_configure_it(prowess, workspace, program):
    program("cursor-agent", "exit 0")
    assert "prowess mcp --install cursor --write" in prowess("spawn", "cursor-cli", "--role", "qa", "x").err


def test_a_killed_agent_has_the_exit_code_of_shells(tmp_path):
    launch = plan("goose", folder=tmp_path)
    script = tmp_path / "goose"
    script.write_text("#!/bin/sh\nkill -TERM $$\n")
    script.chmod(0o755)
    assert run_launch(launch, str(script), {}, tmp_path, capture=False)[0] == 143


AGENT = """
import asyncio, json, sys
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

async def main():
    entry = json.load(open(sys.argv[sys.argv.index("--mcp-config") + 1]))["mcpServers"]["prowess"]
    import os
    given = StdioServerParameters(command=entry["command"], args=entry["args"], env={**os.environ, **entry["env"]})
    async with Client(stdio_client(given)) as client:
        for name in ("greeter", "nobody"):
            await client.call_tool("load_skill", {"skill": name})
        print("done")

asyncio.run(main())
"""


@pytest.mark.long
def test_skills_that_a_started_agent_loads_over_mcp_are_counted(prowess, workspace, program, home, monkeypatch):
    skill = workspace / "skills/greeter/SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: greeter\ndescription: Greets people kindly in their own language.\n---\nSay hello.\n")
    prowess("import", skill.parent)
    program("claude", AGENT, sys.executable)
    monkeypatch.setenv("PROWESS_HOME", str(home / ".prowess"))

    ran = prowess("spawn", "claude-code", "--role", "scout", "Greet", "--json")

    assert (ran.code, ran.json["output"], ran.json["loads"]) == (0, "done\n", ["greeter"])
    events = [one for one in prowess("events", "--name", "skill_loaded", "--json").lines if not one["data"]["error"]]
    assert [one["data"]["name"] for one in events] == ["greeter"]
    assert events[0]["session"]
    (usage,) = [one for one in prowess("skills", "--json").json if one["slug"] == "greeter"]
    assert usage["loads"] == 1
