"""Setting up a client: the entry that makes it start `prowess mcp`, and the file where it looks for one."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NAME = "prowess"
CLIENT_PATH = "/usr/local/bin:/usr/bin:/bin"
"""Where every client looks for programs, also one that no shell started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One entry for one client: the file, the table in it (`mcpServers` and the like), and the entry.

    `folder` is what the person chose, and may be a link; nothing below it may.
    """

    folder: Path
    path: Path
    table: str
    entry: dict[str, Any]

    @property
    def is_toml(self) -> bool:
        """Whether the file is TOML; else it is JSON."""
        return self.path.suffix == ".toml"

    @property
    def snippet(self) -> str:
        """The entry as it would stand alone in the file."""
        if not self.is_toml:
            return json.dumps({self.table: {NAME: self.entry}}, indent=2, ensure_ascii=False)
        lines = [f"{key} = {_toml_value(value)}" for key, value in self.entry.items()]
        return "\n".join([f"[{self.table}.{NAME}]", *lines])


def plan(
    client: str,
    workspace: Path,
    user_home: Path,
    environment: Mapping[str, str],
    *,
    program: Sequence[str],
    options: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
) -> Plan:
    """Where the entry for a client belongs, and what it says.

    `program` is how Prowess is started, `options` what follows `prowess mcp`, and `variables` what the server finds in its
    environment. A client that says which folder is open says it to the server, unless the options do.
    """
    command, *arguments = program
    start = {"command": command, "args": [*arguments, "mcp", *options]}
    env = {"env": dict(variables)} if variables else {}
    here = {**start, **env}
    if client == "codex":
        folder = Path(environment.get("CODEX_HOME") or user_home / ".codex")
        return Plan(folder=folder.parent, path=folder / "config.toml", table="mcp_servers", entry=here)
    if client == "claude-code":
        return Plan(folder=workspace, path=workspace / ".mcp.json", table="mcpServers", entry={"type": "stdio", **here})
    opened = () if "--workspace" in options else ("--workspace", "${workspaceFolder}")
    there = {"command": command, "args": [*start["args"], *opened], **env}
    if client == "cursor":
        return Plan(folder=workspace, path=workspace / ".cursor" / "mcp.json", table="mcpServers", entry=there)
    path = workspace / ".vscode" / "mcp.json"
    return Plan(folder=workspace, path=path, table="servers", entry={"type": "stdio", **there})


def program_of(started: str, python: str, *, client_path: str = CLIENT_PATH) -> list[str]:
    """How a client starts the Prowess that runs now: by its name where the client finds it, else by its path.

    `started` is the program as it was started; where that is not `prowess` itself, it is this Python with a module.
    """
    running = Path(started).absolute()
    is_program = os.sep in started and running.name == NAME and shutil.which(str(running)) is not None
    if not is_program:
        return [python, "-m", NAME]
    found = shutil.which(NAME, path=client_path)
    return [NAME] if found is not None and running.samefile(found) else [str(running)]


def _toml_value(value: Any) -> str:
    if isinstance(value, dict):
        pairs = (f"{key} = {_toml_value(inner)}" for key, inner in value.items())  # pyright: ignore[reportUnknownVariableType]
        return f"{{ {', '.join(pairs)} }}"
    return json.dumps(value, ensure_ascii=False)
