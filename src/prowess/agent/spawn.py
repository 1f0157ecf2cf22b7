"""Agents of other makers: how each is started with a task, the prompt of a role and the MCP server of Prowess.

Each agent is a row of a table. Its arguments and variables may hold these names in braces:

- `task`, and `prompt`: the text of the role; `prompt_toml` is the same as a TOML string.
- `prompt_file`: a private file with the prompt.
- `servers_file`: a private file with the MCP server as `{"mcpServers": …}`.
- `server_line`, `server_command` and `server_arguments`: how the server is started, for a shell and in TOML.
- `opencode_config`: the configuration of opencode.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from prowess.errors import Invalid, NotFound, Unavailable
from prowess.skill.json_values import json_value

SERVER_NAME: Final = "prowess"
PROMPT_FILE, SERVERS_FILE = "AGENTS.md", "mcp.json"
_ENDING_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignAgent:
    """An agent of another maker.

    `verified` says against what the row was checked. The options for the prompt and the server stand between `head` and
    `tail`. Only the tools of our own server are allowed in advance; its gate decides about every call.
    """

    name: str
    program: str
    install: str
    verified: str
    head: tuple[str, ...] = ()
    prompt: tuple[str, ...] = ()
    server: tuple[str, ...] = ()
    tail: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    takes_prompt: str
    takes_server: str
    configured_by: str = ""
    """The command that configures the server, for an agent that takes none when it is started."""


_ROWS: Final = (
    ForeignAgent(
        name="claude-code",
        program="claude",
        install="npm install -g @anthropic-ai/claude-code",
        verified="run with 2.1.197",
        head=("-p",),
        prompt=("--append-system-prompt", "{prompt}"),
        server=("--mcp-config", "{servers_file}", "--allowedTools", f"mcp__{SERVER_NAME}"),
        # After `--`, because the two options before take any number of values, and a task may start with a dash.
        tail=("--", "{task}"),
        # By default it sends the first request after 5 seconds, without the tools if the server has not started by then.
        variables={"MCP_CONNECT_TIMEOUT_MS": "30000"},
        takes_prompt="`--append-system-prompt`, after its own",
        takes_server="`--mcp-config`",
    ),
    ForeignAgent(
        name="codex",
        program="codex",
        install="npm install -g @openai/codex",
        verified="run with 0.166.0",
        head=("exec",),
        prompt=("-c", "developer_instructions={prompt_toml}"),
        server=(
            "-c",
            f"mcp_servers.{SERVER_NAME}.command={{server_command}}",
            "-c",
            f"mcp_servers.{SERVER_NAME}.args={{server_arguments}}",
            "-c",
            f"mcp_servers.{SERVER_NAME}.env={{server_variables}}",
            "-c",
            f'mcp_servers.{SERVER_NAME}.default_tools_approval_mode="approve"',
            "-c",
            f"mcp_servers.{SERVER_NAME}.required=true",
            "-c",
            f"mcp_servers.{SERVER_NAME}.startup_timeout_sec=60",
        ),
        tail=("--", "{task}"),
        takes_prompt="the setting `developer_instructions`, after its own",
        takes_server="the setting `mcp_servers`",
    ),
    ForeignAgent(
        name="gemini-cli",
        program="gemini",
        install="npm install -g @google/gemini-cli",
        verified="run with 0.61.0",
        tail=("--prompt={task}",),
        # The defaults have the lowest rank: rules that an administrator has set stay in force.
        variables={"GEMINI_SYSTEM_MD": "{prompt_file}", "GEMINI_CLI_SYSTEM_DEFAULTS_PATH": "{servers_file}"},
        takes_prompt="`GEMINI_SYSTEM_MD`, instead of its own",
        takes_server="a file of default settings",
    ),
    ForeignAgent(
        name="qwen-code",
        program="qwen",
        install="npm install -g @qwen-code/qwen-code",
        verified="run with 0.15.10",
        prompt=("--append-system-prompt={prompt}",),
        server=("--mcp-config={servers_file}",),
        tail=("--prompt={task}",),
        takes_prompt="`--append-system-prompt`, after its own",
        takes_server="`--mcp-config`",
    ),
    ForeignAgent(
        name="opencode",
        program="opencode",
        install="npm install -g opencode-ai",
        verified="run with 1.18.33",
        head=("run",),
        tail=("--", "{task}"),
        variables={"OPENCODE_CONFIG_CONTENT": "{opencode_config}"},
        takes_prompt="an instruction file, after its own",
        takes_server="`OPENCODE_CONFIG_CONTENT`",
    ),
    ForeignAgent(
        name="copilot-cli",
        program="copilot",
        install="npm install -g @github/copilot",
        verified="run with 1.0.102",
        server=("--additional-mcp-config=@{servers_file}", f"--allow-tool={SERVER_NAME}"),
        tail=("--prompt={prompt}\n\n{task}",),
        takes_prompt="before the task",
        takes_server="`--additional-mcp-config`",
    ),
    ForeignAgent(
        name="goose",
        program="goose",
        install="brew install block-goose-cli",
        verified="documentation and source; not run",
        head=("run", "--no-session"),
        prompt=("--system={prompt}",),
        server=("--with-extension={server_line}",),
        tail=("--text={task}",),
        takes_prompt="`--system`, after its own",
        takes_server="`--with-extension`",
    ),
    ForeignAgent(
        name="cursor-cli",
        program="cursor-agent",
        install="curl https://cursor.com/install -fsS | bash",
        verified="documentation; not run",
        head=("-p", "--approve-mcps"),
        tail=("--", "{prompt}\n\n{task}"),
        takes_prompt="before the task",
        takes_server="none: it reads `.cursor/mcp.json`",
        configured_by="prowess mcp --install cursor --write",
    ),
)
FOREIGN_AGENTS: Final = {row.name: row for row in _ROWS}


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServer:
    """How the MCP server of Prowess is started for an agent."""

    program: tuple[str, ...]
    options: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def command(self) -> list[str]:
        """The whole command."""
        return [*self.program, "mcp", *self.options]

    @property
    def entry(self) -> dict[str, Any]:
        """The entry for files with `mcpServers`. Its tools need no second approval by the agent's own rules."""
        command, *arguments = self.command
        # `alwaysLoad` makes Claude Code wait for the server and show its tools in the first request. `trust` is for
        # Gemini CLI and Qwen Code, `tools` for Copilot CLI. Each ignores those of the others.
        return {
            "type": "stdio",
            "command": command,
            "args": arguments,
            "env": dict(self.variables),
            "alwaysLoad": True,
            "trust": True,
            "tools": ["*"],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """The command that starts an agent, the variables it gets besides those of the user, and the files it reads."""

    agent: str
    command: tuple[str, ...]
    variables: Mapping[str, str]
    files: Mapping[str, str]
    """The text of each file, by its path."""

    def as_shell(self) -> str:
        """Return the command as one could type it in a shell."""
        assignments = [f"{name}={shlex.quote(value)}" for name, value in self.variables.items()]
        return " ".join([*assignments, shlex.join(self.command)])


def find_agent(name: str) -> ForeignAgent:
    """Return the agent of that name, or raise `NotFound`."""
    if name not in FOREIGN_AGENTS:
        raise NotFound(f"Unknown agent {name[:80]!r}.", hint=f"Use one of: {', '.join(FOREIGN_AGENTS)}.")
    return FOREIGN_AGENTS[name]


def plan_launch(
    agent: ForeignAgent,
    *,
    task: str,
    prompt: str,
    server: McpServer,
    folder: Path,
    environment: Mapping[str, str],
    more: Sequence[str] = (),
) -> Launch:
    """Return how the agent is started with a task. Nothing is read or written.

    `folder` is where its files will be, and `more` are arguments of the user's own.
    """
    values = {
        "task": task,
        "prompt": prompt,
        "prompt_toml": toml_string(prompt),
        "prompt_file": str(folder / PROMPT_FILE),
        "servers_file": str(folder / SERVERS_FILE),
        "server_command": toml_string(server.command[0]),
        "server_arguments": f"[{', '.join(map(toml_string, server.command[1:]))}]",
        "server_variables": f"{{{', '.join(f'{key}={toml_string(value)}' for key, value in server.variables.items())}}}",
        "server_line": shlex.join([*(f"{key}={value}" for key, value in server.variables.items()), *server.command]),
        "opencode_config": _opencode_config(server, folder, environment.get("OPENCODE_CONFIG_CONTENT", "")),
    }
    words = (*agent.head, *agent.prompt, *agent.server)
    command = (agent.program, *_fill(words, values), *more, *_fill(agent.tail, values))
    variables = dict(zip(agent.variables, _fill(agent.variables.values(), values), strict=True))
    files = {
        str(folder / PROMPT_FILE): prompt,
        str(folder / SERVERS_FILE): json.dumps({"mcpServers": {SERVER_NAME: server.entry}}, indent=2),
    }
    used = "\0".join((*command, *variables.values()))
    return Launch(
        agent=agent.name,
        command=command,
        variables=variables,
        files={path: text for path, text in files.items() if path in used},
    )


def _fill(words: Iterable[str], values: Mapping[str, str]) -> list[str]:
    # In one pass: a prompt may hold such names itself, and they must stay as they are.
    return [re.sub(r"\{([a-z_]+)\}", lambda found: values.get(found[1], found[0]), word) for word in words]


def toml_string(text: str) -> str:
    """Return a text as a TOML string."""
    # A JSON string is a TOML string, with two exceptions: TOML has no surrogate pairs, which JSON needs for emoji in
    # ASCII, and no bare DEL.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _opencode_config(server: McpServer, folder: Path, own: str) -> str:
    """Return opencode's configuration: the user's own, with our server and the file with the prompt."""
    parsed = json_value(own or "{}")
    if not isinstance(parsed, dict):
        raise Invalid("OPENCODE_CONFIG_CONTENT is not a JSON object.", hint="Unset it, or put JSON in it.")
    config = cast("dict[str, Any]", parsed)
    entry = {"type": "local", "command": server.command, "environment": dict(server.variables), "enabled": True}
    config["mcp"] = {**config.get("mcp", {}), SERVER_NAME: entry}
    config["instructions"] = [*config.get("instructions", []), str(folder / PROMPT_FILE)]
    return json.dumps(config)


def check_installed(agent: ForeignAgent, environment: Mapping[str, str]) -> str:
    """Return the path of the agent's program, or raise `NotFound` with the command that installs it."""
    path = shutil.which(agent.program, path=environment.get("PATH"))
    if path is None:
        raise NotFound(
            f"The program {agent.program!r} is not installed, or not on PATH.", hint=f"Install it: {agent.install}"
        )
    return path


def run_launch(
    launch: Launch, program: str, environment: Mapping[str, str], cwd: Path, *, capture: bool
) -> tuple[int, str]:
    """Write the files, run the agent with the user's own environment, and return its exit code and output.

    The output is '' unless it is captured. The folder of the files must exist and be private. If this process is
    interrupted, the agent is given time to end, and killed after that.
    """
    for path, text in launch.files.items():
        Path(path).write_text(text, encoding="utf-8")
    try:
        process = subprocess.Popen(  # noqa: S603  (no shell)
            launch.command,
            executable=program,
            cwd=cwd,
            env={**environment, **launch.variables},
            stdout=subprocess.PIPE if capture else None,
        )
    except OSError as error:
        # A prompt that is too long for a command line, or a file that cannot be run.
        raise Unavailable(
            f"{launch.agent} could not be started: {os.strerror(error.errno or 0)}.",
            hint="Check the program, and shorten the task or the prompt of the role.",
        ) from error
    with process:
        try:
            output = process.communicate()[0]
        except BaseException:
            _end(process)
            raise
    text = output.decode("utf-8", "replace") if output else ""
    code = process.returncode
    return (code if code >= 0 else 128 - code), text


def _end(process: subprocess.Popen[bytes]) -> None:
    # Ctrl-C reaches the agent as well, through the terminal; a signal to this process alone does not.
    for stop in (process.terminate, process.kill):
        stop()
        try:
            process.wait(_ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            continue
        return
