"""Settings: read once, at the edge, from the environment and the command line.

Every setting is an environment variable `PROWESS_<NAME>` and is documented in docs/settings.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from prowess.errors import Invalid

PREFIX = "PROWESS_"
FOLDER = ".prowess"
DATABASE = "agents.db"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where things are and how large they may be. Limits that are not set have the defaults of `skill/limits.py`."""

    home: Path
    workspace: Path
    user_home: Path
    database_url: str = field(default="", repr=False)
    system_skills: bool = True
    trusted_folders: tuple[str, ...] = ()
    embedder: str = "default"
    embedder_url: str = ""
    embedder_key: str = field(default="", repr=False)
    background: bool = True
    model: str = ""
    evaluation_model: str = ""
    model_url: str = ""
    model_key: str = field(default="", repr=False)
    model_requests_per_minute: int | None = None
    run_seconds: int | None = None
    trace_days: int | None = None
    telemetry: bool = False
    max_archive_bytes: int | None = None
    max_skill_bytes: int | None = None
    max_file_bytes: int | None = None
    max_files: int | None = None
    approver_token: str = field(default="", repr=False)
    safe_folders: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    @property
    def account_database(self) -> str:
        """The database of the account scope: the configured one, or a file in the home folder."""
        return self.database_url or f"sqlite:///{self.home / DATABASE}"

    @property
    def workspace_database(self) -> str:
        """The database of the workspace scope."""
        return f"sqlite:///{self.workspace / FOLDER / DATABASE}"


def read_settings(environment: Mapping[str, str] | None = None, *, workspace: str | Path | None = None) -> Settings:
    """Read the settings from the environment. An explicit workspace wins over `PROWESS_WORKSPACE`, which wins over `.`."""
    env = dict(os.environ if environment is None else environment)
    user_home = Path(env.get("HOME") or Path.home())
    home = Path(env.get("PROWESS_HOME") or user_home / FOLDER).expanduser()
    named = workspace if workspace is not None else env.get("PROWESS_WORKSPACE") or "."
    folder = Path(named).expanduser()
    if not str(named) or not folder.is_dir():
        raise Invalid(
            f"The workspace {str(named)!r} is not a folder.",
            hint="Give an existing folder with --workspace DIR or PROWESS_WORKSPACE.",
        )
    numbers = {name: _number(env, name) for name in _numeric_names() if PREFIX + name.upper() in env}
    return Settings(
        home=_absolute(home),
        workspace=_absolute(folder),
        user_home=_absolute(user_home),
        database_url=env.get("PROWESS_DATABASE_URL", ""),
        trusted_folders=_folders(env.get("PROWESS_TRUSTED_FOLDERS", "")),
        system_skills=_switch(env, "PROWESS_SYSTEM_SKILLS", default=True),
        embedder=env.get("PROWESS_EMBEDDER") or "default",
        embedder_url=env.get("PROWESS_EMBEDDER_URL", ""),
        embedder_key=env.get("PROWESS_EMBEDDER_KEY", ""),
        background=_switch(env, "PROWESS_BACKGROUND", default=True),
        model=env.get("PROWESS_MODEL", "").strip(),
        evaluation_model=env.get("PROWESS_EVALUATION_MODEL", "").strip(),
        model_url=env.get("PROWESS_MODEL_URL", "").strip(),
        model_key=env.get("PROWESS_MODEL_KEY", "").strip(),
        telemetry=_switch(env, "PROWESS_TELEMETRY", default=False),
        approver_token=env.get("PROWESS_APPROVER_TOKEN", "").strip(),
        safe_folders=tuple(part for part in env.get("PROWESS_SAFE_FOLDERS", "").split(os.pathsep) if part),
        environment=env,
        **numbers,
    )


def _numeric_names() -> list[str]:
    return [item.name for item in fields(Settings) if item.type == "int | None"]


def _number(env: Mapping[str, str], name: str) -> int:
    variable = PREFIX + name.upper()
    text = env[variable]
    if text.isascii() and text.isdigit() and int(text) > 0:
        return int(text)
    raise Invalid(f"{variable} is {text[:40]!r}, not a positive number.", hint="Give a whole number above 0.")


def _switch(env: Mapping[str, str], variable: str, *, default: bool) -> bool:
    words = {"": default, "on": True, "1": True, "true": True, "off": False, "0": False, "false": False}
    text = env.get(variable, "").strip().lower()
    if text in words:
        return words[text]
    raise Invalid(f"{variable} is {text[:40]!r}.", hint="Give on or off.")


def _folders(text: str) -> tuple[str, ...]:
    """Return the real paths of a list of folders, separated as in PATH."""
    # A relative path would mean another folder in every working directory, so it could be the workspace of anybody.
    named = [part.strip() for part in text.split(os.pathsep) if part.strip()]
    for part in named:
        if not os.path.isabs(os.path.expanduser(part)):  # noqa: PTH111, PTH117  (as given; Path would tidy it)
            raise Invalid(f"PROWESS_TRUSTED_FOLDERS has the relative path {part[:80]!r}.", hint="Give absolute paths.")
    return real_folders(named)


def real_folders(paths: Iterable[str | Path]) -> tuple[str, ...]:
    """Return the real paths of folders, each once. Their names may lead through links."""
    return tuple(dict.fromkeys(os.path.realpath(os.path.expanduser(path)) for path in paths))  # noqa: PTH111


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))  # noqa: PTH100  (resolve() would follow links that a person chose)
