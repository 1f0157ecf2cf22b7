"""Shell commands that contact other hosts, stores, schedulers and package managers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prowess.scan.places import normalize_path
from prowess.scan.shell_commands import Command, Handler, is_remote, set_arguments, starts_shell
from prowess.scan.values import NOTHING, UNKNOWN, Label, Value, constant, either, join_labels

if TYPE_CHECKING:
    from prowess.scan.shell import Shell

_DATA_OPTIONS = frozenset(
    {"-d", "--data", "--data-raw", "--data-binary", "--data-urlencode", "--data-ascii", "--json", "-F", "--form", "--form-string", "-T",
     "--upload-file", "--post-data", "--post-file", "--body-data", "--body-file", "-b", "--cookie"}
)  # fmt: skip

_FILE_OPTIONS = frozenset({"-T", "--upload-file", "--post-file", "--body-file"})

_HEADER_OPTIONS = frozenset(
    {"-H", "--header", "-u", "--user", "--oauth2-bearer", "--password", "-A", "--user-agent", "-e", "--referer"}
)

_OUTPUT_OPTIONS = frozenset({"-o", "--output", "-O", "--output-document"})

_OTHER_VALUES = frozenset({
    "-X", "--request", "-m", "--max-time", "-w", "--write-out", "--retry", "--connect-timeout", "-x", "--proxy", "-c",
    "--cookie-jar", "--cacert", "-P", "--timeout", "--tries", "-t", "--proto", "--proto-default", "--proto-redir", "--resolve",
    "--retry-delay", "--retry-max-time", "--limit-rate", "--max-redirs", "--max-filesize", "--tls-max", "--ciphers", "--cert",
    "--key", "--interface", "--noproxy", "--range", "--connect-to", "--capath", "--keepalive-time", "--speed-limit", "--speed-time",
})  # fmt: skip


class _Transfer:
    """The request that the arguments of curl or wget describe."""

    def __init__(self) -> None:
        self.urls: list[Value] = []
        self.data: list[Value] = []
        self.headers: list[Value] = []
        self.output: Value | None = None
        self.keeps_name = False


def _read_transfer(shell: Shell, command: Command) -> _Transfer:
    transfer = _Transfer()
    is_wget = command.name in ("wget", "aria2c")
    args = iter(command.args)
    for arg in args:
        text = arg.text
        name, _, inline = text.partition("=") if text.startswith("--") else (text, "", "")
        short = "-" + text[-1] if re.fullmatch(r"-[a-zA-Z]+", text) else ""
        joined = re.match(r"^(-[OoTdF])(.+)$", text) if not text.startswith("--") and not short else None
        option = name if text.startswith("--") else (joined[1] if joined else short)
        if option in ("-O", "--remote-name") and not is_wget:
            transfer.keeps_name = True
            continue
        if is_wget and re.fullmatch(r"-[a-zA-Z]*O-?", text) and text.endswith("-"):
            continue
        takes = option in _DATA_OPTIONS | _HEADER_OPTIONS | _OUTPUT_OPTIONS | _OTHER_VALUES
        if not takes or (is_wget and option in ("-d", "-b", "-c", "-F", "-H", "-x", "-w", "-m", "-A", "-e")):
            if not text.startswith("-"):
                transfer.urls.append(arg)
            continue
        value = constant(inline) if inline else constant(joined[2]) if joined else next(args, NOTHING)
        if inline or joined:
            value = value.labelled(arg.labels)
        _take_option(shell, command, transfer, option, value)
    return transfer


def _take_option(shell: Shell, command: Command, transfer: _Transfer, option: str, value: Value) -> None:
    if option in _OUTPUT_OPTIONS:
        transfer.output = value
    elif option in _HEADER_OPTIONS:
        transfer.headers.append(value)
    elif option in _DATA_OPTIONS:
        transfer.data.append(value)
        text = value.text
        named = (
            text if option in _FILE_OPTIONS else text.partition("@")[2].partition(";")[0] if "@" in text[:80] else ""
        )
        if named == "-" or text in ("@-", "-"):
            transfer.data.append(command.stdin)
        elif named and "@" not in named:
            transfer.data.append(shell.behaviour.read(Value(texts=(named,), labels=value.labels), command.line))


def _curl(shell: Shell, command: Command) -> Value:
    behaviour, line = shell.behaviour, command.line
    transfer = _read_transfer(shell, command)
    urls = [url for url in transfer.urls if url.text]
    fetched: list[Value] = []
    data = Value(
        labels=join_labels([*transfer.data, Value(labels=command.stdin.labels if command.via_xargs else frozenset())])
    )
    for url in urls:
        local = url.text.startswith("file://")
        fetched.append(behaviour.read(url, line) if local else behaviour.fetch(_with_scheme(url), line))
        behaviour.send(_with_scheme(url), data, line)
        behaviour.send(_with_scheme(url), Value(labels=join_labels(transfer.headers)), line, header=True)
    if not urls and (data.labels or command.stdin.labels):
        behaviour.send(NOTHING, data, line)
    result = either(fetched) if fetched else Value(labels=frozenset({Label("network", "")}))
    result = Value(labels=result.labels)
    target = transfer.output
    if target is None and (transfer.keeps_name or command.name in ("wget", "aria2c")) and urls and not _prints(command):
        target = constant(re.split(r"[?#]", urls[0].text)[0].rpartition("/")[2] or "index.html")
    if target is not None and target.text not in ("-", "/dev/null", "/dev/stdout"):
        behaviour.write(target, result, line)
        return NOTHING
    return result


def _prints(command: Command) -> bool:
    return any(re.fullmatch(r"-[a-zA-Z]*O-|-O-|--output-document=-", text) for text in command.texts) or (
        any(re.fullmatch(r"-[a-zA-Z]*O", text) for text in command.texts) and "-" in command.texts
    )


def _with_scheme(url: Value) -> Value:
    texts = tuple(text if "://" in text or text.startswith(UNKNOWN) else "http" + "s://" + text for text in url.texts)
    return Value(texts=texts, labels=url.labels)


def _netcat(shell: Shell, command: Command) -> Value:
    words = command.texts
    operands = command.operands("wpqisx")
    host = next((operand.text for operand in operands if not operand.text.isdigit()), "")
    if command.has("-e", "-c", "--exec", "--sh-exec") and (starts_shell(words) or command.name != "socat"):
        shell.behaviour.remote_shell(command.line)
    if command.name == "socat" and any(
        re.match(r"(exec|system):", word, re.IGNORECASE) and re.search(r"sh\b|cmd", word) for word in words
    ):
        shell.behaviour.remote_shell(command.line)
    if command.has("-l", "-lvnp", "--listen", "-z"):
        return Value(labels=frozenset({Label("network", "")}))
    address = constant(f"https://{host}/" if host else UNKNOWN)
    shell.behaviour.send(address, command.data, command.line)
    shell.behaviour.fetch(address, command.line)
    return Value(labels=frozenset({Label("network", host)}))


def _remote_copy(shell: Shell, command: Command) -> Value:
    operands = command.operands("iPpoFlceJS", ("--rsh", "--exclude", "--profile", "--region"))
    remote = next((operand for operand in operands if is_remote(operand.text)), None)
    if remote is None:
        return NOTHING
    target = operands[-1] if operands else remote
    host = re.sub(r"^[^@]*@", "", remote.text).partition(":")[0]
    if target is remote:
        sources = [shell.behaviour.read(one, command.line) for one in operands[:-1]]
        shell.behaviour.send(
            constant(f"https://{host}/"), Value(labels=join_labels([*sources, command.stdin])), command.line
        )
    else:
        shell.behaviour.write(target, Value(labels=frozenset({Label("network", host)})), command.line)
    return NOTHING


def _ssh(shell: Shell, command: Command) -> Value:
    operands = command.operands("ipoFlJLRDWbc")
    host = operands[0].text.rpartition("@")[2] if operands else ""
    if command.has("-R"):
        shell.behaviour.report.add(
            "warning", "remote-control", command.line, "Opens a tunnel from another host into this machine."
        )
    shell.behaviour.send(constant(f"https://{host}/"), command.stdin, command.line)
    return Value(labels=frozenset({Label("network", host)}) if operands[1:] else frozenset())


def _lookup(shell: Shell, command: Command) -> Value:
    """Follow a command whose argument reaches a name server: data can leave inside a host name."""
    shell.behaviour.send(NOTHING, Value(labels=join_labels(command.args)), command.line)
    # A record of this type is any text that the owner of the name has chosen.
    has_text = any(text.lower().rpartition("=")[2] == "txt" for text in command.texts)
    return Value(labels=frozenset({Label("network", "")})) if has_text else NOTHING


def _mail(shell: Shell, command: Command) -> Value:
    reads = [shell.behaviour.read(arg, command.line) for arg in command.args]
    shell.behaviour.send(NOTHING, Value(labels=join_labels([command.stdin, *command.args, *reads])), command.line)
    return NOTHING


def _cloud(shell: Shell, command: Command) -> Value:
    """Follow the command line tools of clouds and forges: uploads, and tokens that they print."""
    words = command.texts
    line = " ".join(words)
    for pattern, what in _TOKEN_COMMANDS:
        if re.search(pattern, f"{command.name} {line}"):
            return shell.behaviour.secret_store(what, command.line)
    if re.search(r"\b(s3 (cp|sync|mv)|gist create|copy|copyto|cp|rsync|issue create|upload)\b", line):
        reads = [shell.behaviour.read(arg, command.line) for arg in command.args]
        shell.behaviour.send(NOTHING, Value(labels=join_labels([*reads, *command.args, command.stdin])), command.line)
    return NOTHING


_TOKEN_COMMANDS = (
    (r"^security (find-(generic|internet)-password|dump-keychain|export)", "the macOS keychain"),
    (r"^gh auth token", "the GitHub token"),
    (r"^gcloud auth (application-default )?print-(access|identity)-token", "a Google Cloud token"),
    (r"^aws (configure (get|export-credentials)|sts get-session-token|ecr get-login-password)", "AWS credentials"),
    (r"^az account get-access-token", "an Azure token"),
    (r"^(op|bw|lpass|pass) (read|item get|get|show)", "the password manager"),
    (r"^secret-tool (lookup|search)", "the desktop keyring"),
    (r"^vault (kv get|read|token lookup)", "a Vault secret"),
    (r"^kubectl .*get secrets?\b", "Kubernetes secrets"),
    (r"^git credential fill", "git credentials"),
    (r"^npm (token|config get .*_authtoken)", "the npm token"),
    (r"^docker .*\benv\b", "the environment of a container"),
)


def _environment(shell: Shell, command: Command) -> Value:
    if command.name == "printenv" and command.args:
        return shell.behaviour.variable(command.texts[0], command.line)
    if command.name == "set" and command.args:
        return set_arguments(shell, command)
    if all(text.startswith("-") for text in command.texts):
        return shell.behaviour.environment()
    return NOTHING


def _history(shell: Shell, command: Command) -> Value:
    if command.has("-c", "-cw"):
        shell.behaviour.report.add("danger", "deception", command.line, "Clears the shell history.")
        return NOTHING
    return Value(labels=frozenset({Label("private", "the shell history")}))


def _private(shell: Shell, command: Command) -> Value:
    what = "the clipboard" if command.name in ("pbpaste", "xclip", "xsel", "wl-paste") else "a screenshot"
    if (
        what == "the clipboard"
        and command.name != "pbpaste"
        and not command.has("-o", "--output")
        and command.name != "wl-paste"
    ):
        return NOTHING
    value = Value(labels=frozenset({Label("private", what)}))
    for path in command.operands("dtR"):
        shell.behaviour.files[normalize_path(path.text)] = value
    return value


SERVICES: dict[str, Handler] = {
    **dict.fromkeys(("curl", "wget", "http", "https", "xh", "aria2c", "lynx", "w3m", "fetch", "curlie"), _curl),
    **dict.fromkeys(("nc", "ncat", "netcat", "socat", "telnet", "openssl-s_client"), _netcat),
    **dict.fromkeys(("scp", "rsync", "sftp"), _remote_copy),
    "ssh": _ssh,
    **dict.fromkeys(("dig", "nslookup", "host", "ping", "getent", "drill"), _lookup),
    **dict.fromkeys(("mail", "mailx", "sendmail", "mutt", "msmtp", "swaks"), _mail),
    **dict.fromkeys(("aws", "gsutil", "gcloud", "az", "rclone", "gh", "security", "op", "bw", "lpass", "pass", "secret-tool", "vault", "kubectl", "ipfs", "mc", "s3cmd", "docker"), _cloud),
    **dict.fromkeys(("env", "printenv", "set"), _environment),
    "history": _history,
    **dict.fromkeys(("pbpaste", "xclip", "xsel", "wl-paste", "screencapture", "scrot", "grim", "import", "gnome-screenshot"), _private),
}  # fmt: skip
"""Commands that reach other hosts and stores."""
