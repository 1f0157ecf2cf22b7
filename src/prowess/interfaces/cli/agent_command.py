"""Start an agent of another maker with a prompt, in the way that each agent takes one."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from prowess.agent.spawn import find_agent, toml_string
from prowess.errors import NotFound
from prowess.interfaces.cli.engine import user_environment


def start_agent(agent: str, prompt: str, command: Sequence[str] = ()) -> NoReturn:
    """Replace this process by the agent. Raise `NotFound` if its program is not installed.

    Claude Code appends the prompt to its own, Codex takes it as developer instructions, and Gemini CLI reads it from a
    file instead of its own.
    """
    row = find_agent(agent)
    program, *rest = command or [row.program]
    path = shutil.which(program)
    if path is None:
        raise NotFound(f"The program {program!r} is not installed, or not on PATH.", hint=f"Install it: {row.install}")
    environment = user_environment()
    options: list[str] = []
    if agent == "claude-code":
        options = ["--append-system-prompt", prompt]
    elif agent == "codex":
        options = ["-c", f"developer_instructions={toml_string(prompt)}"]
    else:
        environment["GEMINI_SYSTEM_MD"] = str(_write_prompt(prompt))
    os.execve(path, [program, *options, *rest], environment)  # noqa: S606  (no shell is wanted)


def _write_prompt(prompt: str) -> Path:
    """Write the prompt to a file that only this user can read. It stays: the agent reads it after this process is gone."""
    descriptor, name = tempfile.mkstemp(prefix="prowess-role-", suffix=".md")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(prompt)
    return Path(name)
