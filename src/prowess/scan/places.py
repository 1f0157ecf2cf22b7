"""Sensitive places: files and folders that hold credentials, start programs, or control an agent."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

PlaceKind = Literal["credential", "startup", "ssh-access", "schedule", "service", "git-hook", "agent", "history", "log"]


@dataclass(frozen=True, slots=True)
class Place:
    """The kind of place that a path leads to."""

    kind: PlaceKind
    label: str


# Paths are matched after `normalize_path`: `~` for every spelling of the home folder, forward slashes, lower case.
_PLACES: tuple[tuple[PlaceKind, str, str], ...] = (
    ("ssh-access", "the SSH keys that are allowed to log in", r"(^|/)authorized_keys2?$"),
    ("ssh-access", "the SSH start file", r"\.ssh/rc$"),
    ("credential", "SSH keys", r"(^|/)\.ssh(/(\*|id_?[\w*?.]*|identity|[\w.-]*\.pem|[\w-]*_(rsa|ed25519|ecdsa))?)?$"),
    ("credential", "a private key", r"(^|/)id_(rsa|dsa|ecdsa|ed25519)$"),
    ("credential", "AWS credentials", r"\.aws(/(credentials|config|sso(/.*)?|\*)?)?$"),
    ("credential", "Google Cloud credentials", r"\.config/gcloud(/.*)?$|application_default_credentials\.json$"),
    ("credential", "Azure credentials", r"(~|\ufffd|^)/?\.azure(/.*)?$"),
    ("credential", "Kubernetes credentials", r"\.kube(/(config|\*)?)?$|/serviceaccount/token$"),
    ("credential", "Docker credentials", r"\.docker/config\.json$"),
    ("credential", "saved logins (.netrc)", r"(^|/)[._]netrc$"),
    ("credential", "git credentials", r"\.git-credentials$|\.config/git/credentials$"),
    ("credential", "the npm token (.npmrc)", r"(^|/)\.npmrc$"),
    ("credential", "package index tokens", r"(^|/)\.pypirc$|\.cargo/credentials(\.toml)?$|\.gem/credentials$"),
    ("credential", "the GitHub token", r"\.config/gh(/.*)?$"),
    ("credential", "GnuPG keys", r"(^|/)\.gnupg(/.*)?$"),
    ("credential", "database passwords", r"(^|/)\.(pgpass|my\.cnf|mylogin\.cnf)$"),
    ("credential", "Vault or Terraform tokens", r"\.vault-token$|\.terraform\.d/credentials.*$|\.terraformrc$"),
    ("credential", "the macOS keychain", r"library/keychains(/.*)?$|login\.keychain(-db)?$"),
    ("credential", "the password store", r"(^|/)\.password-store(/.*)?$|\.local/share/keyrings(/.*)?$|\.kdbx$|\.config/op(/.*)?$"),
    ("credential", "browser passwords or cookies",
     r"(chrome|chromium|brave|edge|opera|vivaldi|firefox|browser|profiles|user data|default)\b.*/(\*|login data|cookies|web data|local state|key[34]\.db|logins\.json|cookies\.sqlite)(-journal)?$|^(login data|key4\.db|logins\.json)$|/login data$"),
    ("credential", "browser profiles",
     r"(~|\ufffd).*(library/application support/(google/chrome|bravesoftware|firefox/profiles|arc|microsoft edge)|\.config/(google-chrome|chromium|bravesoftware)|\.mozilla/firefox|appdata/(local|roaming)/(google/chrome/user data|mozilla/firefox|microsoft/edge/user data))(/(default|\*|\ufffd)?)?$"),
    ("credential", "browser session storage", r"/local storage/leveldb.*$|/local extension settings.*$"),
    ("credential", "wallet keys",
     r"(^|/)wallet\.dat$|\.ethereum/keystore.*$|\.config/solana/.*\.json$|\.solana(/.*)?$|/(exodus|electrum|atomic|ledger live|metamask)(/.*)?$|\.bitcoin(/.*)?$|\.electrum(/.*)?$"),
    ("credential", "messenger sessions", r"(telegram desktop/tdata|/signal/|/discord/local storage|/slack/(cookies|storage)).*$"),
    ("credential", "the environment file (.env)", r"(^|/)\.env(\.(local|production|prod|dev|development|staging|\*))?\*?$"),
    ("credential", "system passwords", r"^/etc/(shadow|gshadow|master\.passwd|sudoers)$"),
    ("credential", "the environment of a process", r"^/proc/[^/]+/environ$"),
    ("credential", "the agent's own credentials",
     r"\.claude/\.credentials\.json$|\.codex/auth\.json$|\.claude\.json$|\.gemini/oauth_creds\.json$|\.(openclaw|clawdbot|moltbot)/(\.env|credentials.*|openclaw\.json|clawdbot\.json|.*auth-profiles\.json)$"),
    ("credential", "the shell history", r"\.(bash|zsh|sh|python|psql|mysql|node_repl)_history$|fish_history$|consolehost_history\.txt$"),
    ("startup", "a shell profile",
     r"(^|/|\ufffd)\.(bashrc|bash_profile|bash_login|bash_logout|profile|zshrc|zprofile|zshenv|zlogin|kshrc|cshrc|tcshrc|xinitrc|xprofile|xsessionrc)$|fish/config\.fish$|fish/conf\.d/.*$|^/etc/(profile|bash\.bashrc|zshrc|zsh/.*|environment|rc\.local)$|^/etc/profile\.d/.*$|(microsoft\.)?powershell_profile\.ps1$|^\$profile$"),
    ("startup", "a program that starts at login", r"\.config/autostart/.*$|start menu/programs/startup.*$|\\run$|currentversion/run(once)?$"),
    ("startup", "a file that Python runs at every start", r"(^|/)(sitecustomize|usercustomize)\.py$|site-packages/[^/]*\.pth$"),
    ("startup", "the dynamic loader's preload list", r"^/etc/ld\.so\.preload$"),
    ("startup", "the sudo rules", r"^/etc/sudoers(\.d/.*)?$"),
    ("startup", "the editor's start file", r"(^|/)\.(vimrc|emacs)$|\.config/nvim/init\.(lua|vim)$|\.tmux\.conf$"),
    ("schedule", "scheduled jobs (cron)", r"^/etc/cron(tab|\.[a-z]+(/.*)?)$|^/var/spool/cron(/.*)?$"),
    ("service", "a background service (systemd)", r"systemd/(user|system)/.*$|^/etc/init\.d/.*$"),
    ("service", "a launch agent", r"library/launch(agents|daemons)(/.*)?$"),
    ("git-hook", "git hooks", r"\.git/hooks(/.*)?$|(^|/)hooks/(pre-commit|post-commit|pre-push|post-checkout|post-merge|commit-msg)$|\.husky/[\w-]+$"),
    ("git-hook", "the git configuration", r"(^|/)\.gitconfig$|\.config/git/config$|\.git/config$"),
    ("agent", "the agent's settings",
     r"\.claude/(settings(\.local)?\.json|hooks/.*)$|(^|/)\.mcp\.json$|\.cursor/(mcp|hooks)\.json$|\.codex/(config\.toml|hooks\.json)$|\.gemini/settings\.json$|claude_desktop_config\.json$|\.(openclaw|clawdbot|moltbot)/(openclaw|clawdbot|moltbot)\.json$|\.vscode/(tasks|mcp|settings)\.json$|\.claude\.json$|\.windsurf/mcp_config\.json$|\.continue/config\.(json|yaml)$|/mcp_settings\.json$"),
    ("agent", "the agent's standing instructions",
     r"(^|/)(claude(\.local)?|agents|gemini|soul|copilot-instructions)\.md$|(^|/)\.(cursorrules|windsurfrules|clinerules)$|\.cursor/rules/.*$|\.claude/(commands|agents|rules)/.*$|(^|/)memory\.md$"),
    ("log", "system logs", r"^/var/log/(auth\.log|syslog|secure|messages|wtmp|btmp|lastlog|audit/.*|kern\.log|system\.log|\*|journal/.*)$|^/var/run/utmp$"),
)  # fmt: skip

_COMPILED: tuple[tuple[Place, re.Pattern[str]], ...] = tuple(
    (Place(kind, label), re.compile(pattern)) for kind, label, pattern in _PLACES
)
_HOMES = re.compile(
    r"^(?:\$\{?(?:HOME|USERPROFILE)\}?|%USERPROFILE%|\$env:(?:USERPROFILE|HOME)|~[a-z_]*|/root|/home/[^/]+|/Users/[^/]+|[A-Za-z]:/Users/[^/]+)(?=/|$)"
)
_APPDATA = re.compile(r"^(?:%APPDATA%|\$env:APPDATA)", re.IGNORECASE)
_LOCALAPPDATA = re.compile(r"^(?:%LOCALAPPDATA%|\$env:LOCALAPPDATA)", re.IGNORECASE)
_EXAMPLE_ENV = re.compile(r"\.env\.(example|sample|template|test|dist|defaults)$")
_MAX_PATH = 400


def normalize_path(path: str) -> str:
    """Return a path with `~` for the home folder, forward slashes, and neither `./` nor doubled slashes."""
    text = path[:_MAX_PATH].strip().strip("\"'").replace("\\ ", " ").replace("\\", "/")
    text = text.removeprefix("file://")
    text = _LOCALAPPDATA.sub("~/AppData/Local", _APPDATA.sub("~/AppData/Roaming", text))
    text = _HOMES.sub("~", text)
    text = re.sub(r"/(?:\./)+", "/", re.sub(r"/{2,}", "/", text))
    return text.removeprefix("./")


def find_place(path: str) -> Place | None:
    """Return the sensitive place that a path leads to, or None."""
    text = normalize_path(path).lower()
    if (
        len(text) < 4
        or "\n" in text
        or _EXAMPLE_ENV.search(text)
        or text.endswith(".pub")
        or ("/skills/" in text and text.endswith(".md"))
    ):
        return None
    return next((place for place, pattern in _COMPILED if pattern.search(text)), None)


def is_outside(path: str) -> bool:
    """Return True if a path leads outside the skill and the workspace."""
    text = normalize_path(path)
    if text.startswith(("~", "../")) or text == ".." or "/../" in text:
        return True
    # Temporary files, streams and programs are everyone's.
    return text.startswith("/") and not re.match(r"/(?:tmp|bin|usr/bin|dev/(?:null|std|fd|tty))(?:/|\b)", text)


def is_home_or_root(path: str) -> bool:
    """Return True for the whole home folder, the whole disk, or everything in them."""
    text = normalize_path(path).rstrip("/")
    text = text.removesuffix("/*").removesuffix("/.*").removesuffix("/.[!.]*")
    return text in ("", "~", "/", "/*", "/home", "/Users", "/etc", "/usr", "/var", "C:", "c:") and path.strip() not in (
        "",
        "*",
        ".",
    )


def is_private_folder(path: str) -> bool:
    """Return True for folders with a person's own documents, or the whole home."""
    text = normalize_path(path).rstrip("/*").lower()
    return text == "~" or bool(re.match(r"^~/(documents|desktop|downloads|pictures|library|dropbox|onedrive)\b", text))


def is_concealed(path: str) -> bool:
    """Return True for a program path that hides: a dot file in a temporary or cache folder."""
    text = normalize_path(path)
    return bool(re.search(r"^(/tmp|/var/tmp|/dev/shm|~/\.cache|~/\.local/share|~/\.config)/(.*/)?\.[^/.]", text))
