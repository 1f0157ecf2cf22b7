"""Shell commands that install packages, set up jobs, and enable or disable protection."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prowess.scan.hosts import UNTRUSTED, classify_host, looks_like_url, read_host
from prowess.scan.places import normalize_path
from prowess.scan.shell_commands import Command, Handler
from prowess.scan.values import NOTHING, Label, Value, constant, either

if TYPE_CHECKING:
    from prowess.scan.shell import Shell

# Packages

_INSTALLS = {
    "pip": r"\binstall\b", "pip3": r"\binstall\b", "uv": r"\b(add|pip install|tool install)\b", "pipx": r"\binstall\b", "npm": r"\b(i|install|add|ci)\b",
    "pnpm": r"\b(add|i|install|dlx)\b", "yarn": r"\b(add|install|global)\b", "npx": r"", "bunx": r"", "uvx": r"", "brew": r"\binstall\b", "apt": r"\binstall\b",
    "apt-get": r"\binstall\b", "yum": r"\binstall\b", "dnf": r"\binstall\b", "apk": r"\badd\b", "gem": r"\binstall\b", "cargo": r"\binstall\b", "go": r"\binstall\b",
    "choco": r"\binstall\b", "winget": r"\binstall\b", "scoop": r"\binstall\b", "conda": r"\binstall\b", "pacman": r"-S", "easy_install": r"", "snap": r"\binstall\b",
}  # fmt: skip


_RUNNERS = ("bunx", "npx", "uvx")
_FLAGS = ("--", "--no-install", "--quiet", "--yes", "-q", "-y")
_INDEX_OPTIONS = (
    "-i", "--index-url", "--extra-index-url", "--registry", "--find-links", "-f", "--index", "--default-index",
)  # fmt: skip


def _install(shell: Shell, command: Command) -> Value:
    words = " ".join(command.texts)
    if not re.search(_INSTALLS.get(command.name, ""), words):
        return _run_plain(shell, command)
    report, line = shell.behaviour.report, command.line
    if command.name in _RUNNERS:
        command = _before_program(command)
    index = command.option(*_INDEX_OPTIONS)
    sources = [index] if index is not None else []
    sources += [operand for operand in command.operands() if "://" in operand.text or operand.text.startswith("git+")]
    report.add("info", "install", line, f"Installs packages with {command.name}.")
    for source in sources:
        text = source.text.removeprefix("git+")
        kind = classify_host(text)
        if "://" not in text or kind == "local":
            continue
        host = read_host(text)
        if text.startswith("http://") or kind in UNTRUSTED or command.has("--trusted-host"):
            report.add(
                "danger",
                "download-execute",
                line,
                f"Installs packages from {host}, which is untrusted or unencrypted.",
            )
        elif kind == "other":
            report.add("warning", "install", line, f"Installs packages from {host}, which is not a public registry.")
    return NOTHING


def _before_program(command: Command) -> Command:
    """Return the command up to the package that it runs: what follows are arguments of the program.

    After an option that is not known to be a flag, a word may be its value.
    """
    before = ""
    for count, text in enumerate(command.texts, 1):
        if not text.startswith("-") and (not before.startswith("-") or before in _FLAGS):
            return Command(command.name, command.args[:count], command.stdin, command.line)
        before = text
    return command


def _run_plain(shell: Shell, command: Command) -> Value:
    shell.behaviour.run_program(command.name, command.line)
    return Value(labels=command.stdin.labels)


# Schedulers, services, protection


def _crontab(shell: Shell, command: Command) -> Value:
    if command.has("-l", "-e"):
        return NOTHING
    operands = command.operands("u")
    from_file = (
        shell.behaviour.read(operands[0], command.line) if operands and operands[0].text != "-" else command.stdin
    )
    if command.has("-r"):
        return NOTHING
    shell.behaviour.persist("a scheduled job (cron)", from_file, command.line)
    return NOTHING


def _scheduler(shell: Shell, command: Command) -> Value:
    words = " ".join(command.texts)
    name = command.name
    if name == "schtasks" and re.search(r"/create", words, re.IGNORECASE):
        action = re.search(r"/tr\s+(.+?)(?:\s+/\w+\s|$)", words, re.IGNORECASE)
        shell.behaviour.persist("a scheduled task", constant(action[1] if action else words), command.line)
    elif name == "reg" and re.search(r"currentversion[\\/]+run", words, re.IGNORECASE):
        shell.behaviour.report.add("danger", "persistence", command.line, "Adds a program that starts at login.")
    elif name == "systemctl" and re.search(r"\b(enable|start)\b", words):
        written = [value for key, value in shell.behaviour.files.items() if "systemd/" in key]
        shell.behaviour.persist("a background service", either(written), command.line) if written else None
    elif name == "launchctl" and re.search(r"\b(load|bootstrap|submit)\b", words):
        written = [value for key, value in shell.behaviour.files.items() if "Launch" in key]
        shell.behaviour.persist("a launch agent", either(written), command.line) if written else None
    elif name in ("at", "batch"):
        shell.behaviour.persist("a job that runs later", command.stdin, command.line)
    return NOTHING


def _git(shell: Shell, command: Command) -> Value:
    words = " ".join(command.texts)
    if re.search(r"\bconfig\b", words):
        setting = re.search(
            r"core\.hookspath|core\.fsmonitor|core\.sshcommand|core\.pager|alias\.\S+\s+!|credential\.helper\s+!|url\.\S+\.insteadof|filter\.\S+\.(clean|smudge)",
            words,
            re.IGNORECASE,
        )
        if setting:
            value = constant(command.texts[-1].lstrip("!")) if command.texts else NOTHING
            grave = (
                "insteadof" in setting[0].lower()
                and "--global" in words
                and "git@" not in words
                and "ssh://" not in words
                and "github.com" not in read_host(setting[0])
            )
            shell.behaviour.persist(f"a git setting that runs commands ({setting[0][:40]})", value, command.line)
            if grave:
                shell.behaviour.report.add("warning", "persistence", command.line, "Redirects git to another host.")
        if re.search(r"http\.sslverify\s+false", words, re.IGNORECASE):
            shell.behaviour.report.add("warning", "unsafe-mode", command.line, "Disables certificate checks in git.")
    if re.search(r"\bcredential\s+fill\b", words):
        return shell.behaviour.secret_store("git credentials", command.line)
    for arg in command.args:
        if looks_like_url(arg.text) and "://" in arg.text:
            shell.behaviour.fetch(arg, command.line)
    return NOTHING


def _protection(shell: Shell, command: Command) -> Value:
    words = f"{command.name} " + " ".join(command.texts)
    for pattern, severity, message in _PROTECTION:
        if re.search(pattern, words, re.IGNORECASE):
            shell.behaviour.report.add(
                "danger" if severity == "danger" else "warning", "unsafe-mode", command.line, message
            )
    return Value(labels=command.stdin.labels)


_PROTECTION = (
    (r"^spctl .*(--master-disable|--global-disable)", "danger", "Disables Gatekeeper."),
    (r"^csrutil disable", "danger", "Disables system integrity protection."),
    (r"^setenforce 0", "danger", "Disables SELinux."),
    (r"^(ufw disable|systemctl (stop|disable) (ufw|firewalld|auditd|apparmor|falcon-sensor|clamav\S*))", "danger", "Disables protection software."),
    (r"^iptables (-F|--flush)", "warning", "Removes the firewall rules."),
    (r"^netsh advfirewall .*state off", "danger", "Disables the firewall."),
    (r"^xattr .*(-d|-c|-cr|-rd)\b", "warning", "Removes the quarantine flag of downloaded files."),
    (r"^mkfs|^format [a-z]:", "danger", "Formats a disk."),
    (r"^(claude|codex|gemini|cursor-agent|opencode|amp|qwen)\b.*(--dangerously-\S+|--yolo|--full-auto|bypassPermissions|danger-full-access)", "warning", "Starts an agent that does not ask for approval."),
    (r"^dscl .*-create /users|^(useradd|adduser)\b.*(-o -u 0|-ou 0|sudo|wheel)", "danger", "Adds an administrator account."),
    (r"^(usermod|gpasswd) .*\b(sudo|wheel|admin)\b", "warning", "Makes a user an administrator."),
    (r"^chmod .*(\+s|[46]755) ", "warning", "Makes a program run with its owner's privileges."),
    (r"^chmod .*-R.* 777 (/|~)($|\s)", "danger", "Makes every file writable for every user."),
    (r"^(auditctl -e 0|log erase|wevtutil cl\b)", "danger", "Deletes or stops the system's logs."),
    (r"^journalctl .*--vacuum-(time|size)=[01]", "warning", "Deletes system logs."),
    (r"^(mshta|regsvr32|rundll32|certutil|bitsadmin)\b.*https?://", "danger", "Runs or fetches code with a Windows tool that is often misused."),
    (r"^msiexec .*https?://", "danger", "Installs a program directly from a host."),
    (r"^osascript .*hidden answer", "danger", "Asks for a password in its own dialog."),
)  # fmt: skip


def _agent_program(shell: Shell, command: Command) -> Value:
    _protection(shell, command)
    unasked = any(re.search(r"dangerously|yolo|bypassPermissions|danger-full-access", text) for text in command.texts)
    if unasked and any("://" in arg.text or arg.has("network") for arg in [*command.args, command.stdin]):
        shell.behaviour.report.add(
            "danger",
            "remote-control",
            command.line,
            "Starts an agent that does not ask for approval, with instructions from another host.",
        )
    return _run_plain(shell, command)


def _mkfifo(shell: Shell, command: Command) -> Value:
    for path in command.operands("m"):
        shell.behaviour.files[normalize_path(path.text)] = Value(labels=frozenset({Label("network", "")}))
    return NOTHING


SYSTEM: dict[str, Handler] = {
    **dict.fromkeys(_INSTALLS, _install),
    "crontab": _crontab,
    **dict.fromkeys(("schtasks", "reg", "launchctl", "at", "batch"), _scheduler),
    "git": _git,
    **dict.fromkeys(("spctl", "csrutil", "setenforce", "ufw", "iptables", "netsh", "xattr", "mkfs", "dscl", "useradd", "adduser", "usermod", "gpasswd", "chmod", "auditctl", "journalctl", "wevtutil", "mshta", "regsvr32", "rundll32", "certutil", "bitsadmin", "msiexec", "log", "mkfs.ext4", "format"), _protection),
    **dict.fromkeys(("claude", "codex", "gemini", "cursor-agent", "opencode", "amp", "qwen"), _agent_program),
    "systemctl": lambda shell, command: (_protection(shell, command), _scheduler(shell, command))[1],
    "mkfifo": _mkfifo,
}  # fmt: skip
"""Commands that change the machine."""
