"""Settings: read once, at the edge, from the environment and the command line.

Every setting is an environment variable `PROWESS_<NAME>`, listed in docs/settings.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, field, fields
from pathlib import Path
from typing import Any

from prowess.errors import Invalid
from prowess.lazy_dataclass import dataclass
from prowess.paths import expand_user

PREFIX = "PROWESS_"
_MIN_KEY_CHARS = 32
FOLDER = ".prowess"
DATABASE = "agents.db"
STRICT_FILE = "strict"
"""In the folder `.prowess` of a workspace, it makes the workspace strict. It can only refuse more, so anyone may add it."""


def _setting(meaning: str, *, default: Any = MISSING, default_text: str = "not set", secret: bool = False) -> Any:
    """Return a field with its line of docs/settings.md: what it means, and its default as a reader sees it."""
    return field(default=default, repr=not secret, metadata={"meaning": meaning, "default": default_text})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Locations and size limits. Limits that are not set have the defaults of `skill/limits.py`.

    The field `home` is the variable `PROWESS_HOME`, and so on. `scripts/reference.py` writes docs/settings.md from here.
    """

    home: Path = _setting("The folder for the account's database, caches and tokens.", default_text="`~/.prowess`")
    workspace: Path = _setting(
        "The folder whose skills come first. The option `--workspace` wins over it.", default_text="the current folder"
    )
    user_home: Path
    database_url: str = _setting(
        "The account's [database](storage.md), for example `postgresql://user:password@host/name`.",
        default="",
        default_text="a SQLite file in `PROWESS_HOME`",
        secret=True,
    )
    skill_folders: bool = _setting(
        "Read the skills of the workspace and of skill folders in the home folder: `on` or `off`. Switch it off for a "
        "server that keeps all skills in the account's database.",
        default=True,
        default_text="`on`",
    )
    system_skills: bool = _setting(
        "Include the [skills that come with Prowess](roles.md): `on` or `off`.", default=True, default_text="`on`"
    )
    new_skills: str = _setting(
        "Where new skills of a workspace are written: `database`, or `folder` for `skills/SLUG/` in the workspace.",
        default="database",
        default_text="`database`",
    )
    strict: bool = _setting(
        "Refuse skills with unknown or misspelt fields, and sources that have different skills of the same name "
        "([strict workspaces](catalog.md#strict-workspaces)): `on` or `off`.",
        default=False,
        default_text="`on` if the workspace has the file `.prowess/strict`",
    )
    trusted_folders: tuple[str, ...] = _setting(
        "Folders whose skills, prompts and rubrics count as [accepted](trust.md), whatever they contain, separated by "
        "`:`. For containers, CI and folders that only you write to.",
        default=(),
    )
    safe_folders: tuple[str, ...] = _setting(
        "Skill folders of other users of this machine to read as well, with everything below them, separated by `:`. "
        "`*` means all.",
        default=(),
    )
    approver_token: str = _setting(
        "The approver's token, which answers [approvals](policy.md#approvals) without a terminal. Keep it from agents.",
        default="",
        secret=True,
    )
    server: str = _setting(
        "The URL of a [server](client.md) that commands and clients use instead of this machine's skills. The option "
        "`--server` wins over it.",
        default="",
    )
    token: str = _setting("The token for that server.", default="", secret=True)
    secret_key: str = _setting(
        "The key of [servers that share a database](serve.md#several-servers), at least 32 characters and the same for all of "
        "them.",
        default="",
        default_text="keys in `PROWESS_HOME`",
        secret=True,
    )
    public_url: str = _setting(
        "The address under which browsers reach a server behind a proxy, for example `https://prowess.example.com`.",
        default="",
    )
    oidc_issuer: str = _setting(
        "The OpenID Connect provider through which [people sign in](people.md#openid-connect) to a server, for example "
        "`https://id.example.com`.",
        default="",
    )
    oidc_client_id: str = _setting("The id of the server at that provider.", default="")
    oidc_client_secret: str = _setting("The secret of the server at that provider.", default="", secret=True)
    oidc_organization: str = _setting("The organization whose members sign in through the provider.", default="")
    oidc_domains: tuple[str, ...] = _setting(
        "Email domains, separated by commas. Anyone who signs in with a verified address in one of them joins the "
        "organization.",
        default=(),
        default_text="nobody joins by signing in",
    )
    registry: str = _setting(
        "The [registry](skill-registries.md) that searches and fetches use unless they name another: `skills.sh`, "
        "`clawhub`, or `prowess` for the one of PROWESS_REGISTRY_URL.",
        default="skills.sh",
        default_text="`skills.sh`",
    )
    skills_sh_key: str = _setting(
        "The key for the documented API of skills.sh, if you have one.", default="", secret=True
    )
    registry_url: str = _setting(
        "The URL of a [registry server](registry.md) of Prowess, for example that of your organization.", default=""
    )
    registry_key: str = _setting(
        "The public key of that registry. Without it, a source remembers the key of its first sync.", default=""
    )
    registry_token: str = _setting(
        "The token for publishing to that registry, or for reading a private one.", default="", secret=True
    )
    system_registry_url: str = _setting(
        "The URL of the [registry](registry.md#system-skills) that has newer versions of the skills that come with Prowess.",
        default="",
    )
    system_registry_key: str = _setting(
        "The public key of that registry. Its skills are trusted like those that come with Prowess.", default=""
    )
    embedder: str = _setting(
        "The [embedder](embedders.md) that compares meanings: `default`, `none` (match by words alone), `onnx:FOLDER`, "
        "`fastembed:NAME` or `endpoint:MODEL`.",
        default="default",
        default_text="`default`",
    )
    embedder_url: str = _setting(
        "The server of `endpoint:MODEL`, for example `https://api.example.com/v1`.", default=""
    )
    embedder_key: str = _setting("The key for that server, if it needs one.", default="", secret=True)
    background: bool = _setting(
        "Compute missing [vectors](matching.md#vectors) in a background process: `on` or `off`.",
        default=True,
        default_text="`on`",
    )
    model: str = _setting(
        "The [model](models.md) for runs, for example `anthropic:NAME`, `ollama:NAME` or `local:smollm2`.", default=""
    )
    evaluation_model: str = _setting(
        "The model that judges, in reviews and semantic assertions.", default="", default_text="`PROWESS_MODEL`"
    )
    models: tuple[str, ...] = _setting(
        "Other models that people can choose in a conversation, separated by commas.", default=(), default_text="none"
    )
    model_url: str = _setting("The OpenAI-compatible server of `compatible:NAME`.", default="")
    model_key: str = _setting("The key for that server, if it needs one.", default="", secret=True)
    model_requests_per_minute: int | None = _setting(
        "The limit of requests per minute to each model, for one process.", default=None, default_text="no limit"
    )
    sidecar: str = _setting(
        "The program of the [DSPy sidecar](dspy.md): a binary made by `make sidecar`, or the `bin/python` of an environment "
        "that has its packages. `off` uses the fallback of each dspy_module instead.",
        default="",
        default_text="an environment in `PROWESS_HOME`",
    )
    requests_per_minute: int | None = _setting(
        "The limit of requests per minute of each caller of a [server](serve.md), for one process.",
        default=None,
        default_text="30000",
    )
    run_seconds: int | None = _setting(
        "The timeout of an artifact, in seconds, unless the run or the skill sets one.",
        default=None,
        default_text="120",
    )
    trace_days: int | None = _setting(
        "How many days [traces](traces.md) are kept in organizations without the setting `trace_days`.",
        default=None,
        default_text="30",
    )
    telemetry: bool = _setting(
        "Send runs and requests to OpenTelemetry as [spans](telemetry.md) (extra `telemetry`): `on` or `off`.",
        default=False,
        default_text="`off`",
    )
    git_protocols: tuple[str, ...] = _setting(
        "The transports of [git sources](sources.md#git), separated by commas: `https`, `ssh` (with your own keys), and `file` "
        "for repositories on this machine.",
        default=("https", "ssh"),
        default_text="`https,ssh`",
    )
    max_archive_bytes: int | None = _setting("The size limit of an archive.", default=None, default_text="16777216")
    max_skill_bytes: int | None = _setting("The size limit of a skill.", default=None, default_text="26214400")
    max_file_bytes: int | None = _setting("The size limit of a file.", default=None, default_text="5242880")
    max_files: int | None = _setting("The limit of files in a skill.", default=None, default_text="1000")
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
    home = expand_user(env.get("PROWESS_HOME") or user_home / FOLDER)
    named = workspace if workspace is not None else env.get("PROWESS_WORKSPACE") or "."
    if not isinstance(named, str | os.PathLike):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise Invalid(f"The workspace must be a path, not {type(named).__name__}.")
    folder = expand_user(named)
    if not str(named) or not os.path.isdir(folder):  # noqa: PTH112  (False if denied or too long)
        raise Invalid(
            f"The workspace {str(named)!r} is not a folder.",
            hint="Pass an existing folder with `--workspace DIR` or PROWESS_WORKSPACE.",
        )
    numbers = {name: _number(env, name) for name in _numeric_names() if PREFIX + name.upper() in env}
    return Settings(
        home=_absolute(home),
        workspace=_absolute(folder),
        user_home=_absolute(user_home),
        database_url=env.get("PROWESS_DATABASE_URL", ""),
        trusted_folders=_folders(env.get("PROWESS_TRUSTED_FOLDERS", "")),
        strict=_switch(env, "PROWESS_STRICT", default=os.path.isfile(folder / FOLDER / STRICT_FILE)),  # noqa: PTH113  (False if denied)
        new_skills=_choice(env, "PROWESS_NEW_SKILLS", ("database", "folder")),
        skill_folders=_switch(env, "PROWESS_SKILL_FOLDERS", default=True),
        system_skills=_switch(env, "PROWESS_SYSTEM_SKILLS", default=True),
        registry=env.get("PROWESS_REGISTRY", "").strip() or "skills.sh",
        skills_sh_key=env.get("PROWESS_SKILLS_SH_KEY", "").strip(),
        registry_url=env.get("PROWESS_REGISTRY_URL", "").strip().rstrip("/"),
        registry_key=env.get("PROWESS_REGISTRY_KEY", "").strip(),
        registry_token=env.get("PROWESS_REGISTRY_TOKEN", "").strip(),
        system_registry_url=env.get("PROWESS_SYSTEM_REGISTRY_URL", "").strip().rstrip("/"),
        system_registry_key=env.get("PROWESS_SYSTEM_REGISTRY_KEY", "").strip(),
        embedder=env.get("PROWESS_EMBEDDER") or "default",
        embedder_url=env.get("PROWESS_EMBEDDER_URL", ""),
        embedder_key=env.get("PROWESS_EMBEDDER_KEY", ""),
        background=_switch(env, "PROWESS_BACKGROUND", default=True),
        model=env.get("PROWESS_MODEL", "").strip(),
        evaluation_model=env.get("PROWESS_EVALUATION_MODEL", "").strip(),
        models=tuple(name for item in env.get("PROWESS_MODELS", "").split(",") if (name := item.strip())),
        model_url=env.get("PROWESS_MODEL_URL", "").strip(),
        model_key=env.get("PROWESS_MODEL_KEY", "").strip(),
        sidecar=_program(env, "PROWESS_SIDECAR"),
        telemetry=_switch(env, "PROWESS_TELEMETRY", default=False),
        approver_token=env.get("PROWESS_APPROVER_TOKEN", "").strip(),
        secret_key=_secret_key(env),
        server=env.get("PROWESS_SERVER", "").strip(),
        token=env.get("PROWESS_TOKEN", "").strip(),
        public_url=env.get("PROWESS_PUBLIC_URL", "").strip().rstrip("/"),
        oidc_issuer=env.get("PROWESS_OIDC_ISSUER", "").strip(),
        oidc_client_id=env.get("PROWESS_OIDC_CLIENT_ID", "").strip(),
        oidc_client_secret=env.get("PROWESS_OIDC_CLIENT_SECRET", "").strip(),
        oidc_organization=env.get("PROWESS_OIDC_ORGANIZATION", "").strip(),
        oidc_domains=tuple(one.strip() for one in env.get("PROWESS_OIDC_DOMAINS", "").split(",") if one.strip()),
        safe_folders=tuple(part for part in env.get("PROWESS_SAFE_FOLDERS", "").split(os.pathsep) if part),
        git_protocols=_git_protocols(env),
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
    raise Invalid(
        f"Invalid value {text[:40]!r} for {variable}: not a positive number.",
        hint="Set it to a whole number above 0, or unset it.",
    )


def _secret_key(env: Mapping[str, str]) -> str:
    key = env.get("PROWESS_SECRET_KEY", "").strip()
    if key and len(key) < _MIN_KEY_CHARS:
        raise Invalid(
            f"PROWESS_SECRET_KEY is too short: it needs at least {_MIN_KEY_CHARS} characters.",
            hint="Create one with `openssl rand -hex 32`.",
        )
    return key


def _git_protocols(env: Mapping[str, str]) -> tuple[str, ...]:
    names = env.get("PROWESS_GIT_PROTOCOLS", "").lower().split(",")
    chosen = tuple(name.strip() for name in names if name.strip())
    unknown = [name for name in chosen if name not in ("https", "ssh", "file")]
    if unknown:
        raise Invalid(
            f"Invalid value {unknown[0][:40]!r} in PROWESS_GIT_PROTOCOLS.", hint="Use some of https, ssh and file."
        )
    return chosen or ("https", "ssh")


def _choice(env: Mapping[str, str], name: str, values: Sequence[str]) -> str:
    """Return the value of a variable; the first of the allowed ones if it is not set. Raise `Invalid` for any other."""
    value = env.get(name, "").strip().lower() or values[0]
    if value not in values:
        raise Invalid(f"Invalid value {value[:40]!r} for {name}.", hint=f"Use one of: {', '.join(values)}.")
    return value


def _program(env: Mapping[str, str], name: str) -> str:
    """Return the absolute path of a program, `off`, or ''."""
    text = env.get(name, "").strip()
    return text if text in ("", "off") else str(_absolute(expand_user(text)))


def _switch(env: Mapping[str, str], variable: str, *, default: bool) -> bool:
    words = {"": default, "on": True, "1": True, "true": True, "off": False, "0": False, "false": False}
    text = env.get(variable, "").strip().lower()
    if text in words:
        return words[text]
    raise Invalid(f"Invalid value {text[:40]!r} for {variable}.", hint="Set it to `on` or `off`, or unset it.")


def _folders(text: str) -> tuple[str, ...]:
    """Return the real paths of a list of folders, separated as in PATH."""
    # A relative path would mean another folder in every working directory, so it could be the workspace of anyone.
    named = [part.strip() for part in text.split(os.pathsep) if part.strip()]
    for part in named:
        if not os.path.isabs(os.path.expanduser(part)):  # noqa: PTH111, PTH117  (as given; Path would tidy it)
            raise Invalid(
                f"PROWESS_TRUSTED_FOLDERS contains the relative path {part[:80]!r}.",
                hint="Use absolute paths, or run `prowess trust FOLDER --always` instead.",
            )
    return real_folders(named)


def real_folders(paths: Iterable[str | Path]) -> tuple[str, ...]:
    """Return the real paths of folders, each once. Their names may lead through links. Raise `Invalid` for a single path."""
    if isinstance(paths, str | Path):
        # The letters of `/opt/skills` are paths, too, and the first one is the whole machine.
        raise Invalid(f"{str(paths)!r} is one folder, not a list of folders.", hint=f"Pass [{str(paths)!r}].")
    return tuple(dict.fromkeys(os.path.realpath(expand_user(path)) for path in paths))


def _absolute(path: Path) -> Path:
    try:
        return Path(os.path.abspath(path))  # noqa: PTH100  (resolve() would follow links that a person chose)
    except FileNotFoundError:
        raise Invalid(
            "The current folder no longer exists.", hint="Change to another one with `cd`, or pass `--workspace DIR`."
        ) from None
