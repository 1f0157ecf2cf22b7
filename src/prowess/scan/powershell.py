"""Scan PowerShell code. There is no grammar for it here, so statements are split by hand and aliases are resolved."""

from __future__ import annotations

import re

from prowess.scan.behaviour import Behaviour
from prowess.scan.decoding import decode_base64
from prowess.scan.hosts import find_urls
from prowess.scan.places import find_place
from prowess.scan.powershell_words import spell_out
from prowess.scan.values import NO_LABELS, NOTHING, Label, Value, constant

MAX_CHARS = 200_000
_ASSIGN = re.compile(r"^\s*\$(?:script:|global:|env:)?(\w+)\s*\+?=\s*(.+)$", re.IGNORECASE)
_VARIABLE = re.compile(r"\$\{?(\w+)\}?")
_FETCH = re.compile(
    r"\b(?:invoke-webrequest|invoke-restmethod|iwr|irm|curl|wget|start-bitstransfer)\b|\.download(?:string|file|data)\b|net\.webclient|net\.http\.httpclient",
    re.IGNORECASE,
)
_SEND = re.compile(
    r"-method\s+['\"]?(?:post|put)|\.upload(?:string|data|file)\b|-body\b|-infile\b|send-mailmessage", re.IGNORECASE
)
_RUN = re.compile(
    r"(?:^|[|;&({\s])(?:iex|invoke-expression)\b|\[scriptblock\]::create|\.invokescript|\.addscript\b|\[reflection\.assembly\]::load|add-type\b",
    re.IGNORECASE,
)
_DECODE = re.compile(
    r"frombase64string|-encodedcommand|\[convert\]::|\[char\]\s*\d+|-bxor|-join\s*\(\s*\[char", re.IGNORECASE
)
_BASE64 = re.compile(r"['\"]([A-Za-z0-9+/]{24,}={0,2})['\"]")
_WRITE = re.compile(
    r"\b(?:add-content|set-content|out-file|new-item|copy-item|move-item)\b|>>?|writealltext", re.IGNORECASE
)
_PATH = re.compile(r"['\"]?((?:\$env:\w+|\$HOME|\$PROFILE|~|[a-z]:|%\w+%)[\\/\w.\-$ ]*|\$PROFILE)['\"]?", re.IGNORECASE)
_START = re.compile(r"\b(?:start-process|saps|start)\b|^\s*&\s|\binvoke-item\b", re.IGNORECASE)
_PROTECTION = re.compile(
    r"set-mppreference.*(?:disablerealtimemonitoring|exclusionpath)|add-mppreference.*exclusion|set-netfirewallprofile.*enabled\s+false|stop-service.*(?:windefend|sense)|disable-windowsoptionalfeature.*defender",
    re.IGNORECASE,
)
_PERSIST = re.compile(
    r"register-scheduledtask|new-scheduledtask|new-service|currentversion\\+run|start menu\\programs\\startup",
    re.IGNORECASE,
)
_REVERSE = re.compile(r"net\.sockets\.tcpclient", re.IGNORECASE)


def analyse(behaviour: Behaviour, text: str, taint: frozenset[Label] = NO_LABELS) -> None:
    """Scan PowerShell code, statement by statement."""
    variables: dict[str, Value] = {}
    aliases: dict[str, str] = {}
    lines = re.sub(r"`\r?\n", " ", behaviour.report.cut(text, MAX_CHARS)).split("\n")
    for number, line in enumerate(lines, start=1):
        behaviour.report.budget.spend()
        if not line.lstrip().startswith("#"):
            for statement in line.split(";"):
                _run(behaviour, spell_out(statement[:4000], variables, aliases), number, variables, taint)


def _run(behaviour: Behaviour, statement: str, line: int, variables: dict[str, Value], taint: frozenset[Label]) -> None:
    labels = set(taint if "\ufffd" in statement else NO_LABELS)
    names = [name.lower() for name in _VARIABLE.findall(statement)]
    assigned = _ASSIGN.match(statement)
    used = [variables[name] for name in names[1 if assigned else 0 :] if name in variables]
    for value in used:
        labels |= value.labels
    spelled = " ".join([statement, *(value.text for value in used if value.is_known)])
    labels |= _read_sources(behaviour, statement, spelled, line)
    value = Value(labels=frozenset(labels), texts=(assigned[2].strip().strip("'\""),) if assigned else ("\ufffd",))
    if _DECODE.search(spelled):
        value = value.labelled([Label("decoded", "encoded text")])
    _judge(behaviour, statement, spelled, value, line)
    if assigned:
        variables[assigned[1].lower()] = value


def _read_sources(behaviour: Behaviour, statement: str, spelled: str, line: int) -> set[Label]:
    labels: set[Label] = set()
    if _FETCH.search(statement):
        bare = re.search(r"(?:irm|iwr|wget|curl)\s+([\w.-]+\.[a-z]{2,}(?:/\S*)?)", spelled, re.IGNORECASE)
        hosts = find_urls(spelled) or ([bare[1].partition("/")[0]] if bare else [])
        for host in hosts or [""]:
            scheme = "http" if f"http://{host}" in spelled else "https"
            labels |= behaviour.fetch(constant(f"{scheme}://{host}/") if host else NOTHING, line).labels
    if not _WRITE.search(statement):
        for path in _PATH.findall(statement):
            place = find_place(path.strip())
            if place is not None and place.kind == "credential":
                labels |= behaviour.read(constant(path.strip()), line).labels
    if re.search(
        r"get-childitem\s+env:|\bgci\s+env:|\[environment\]::getenvironmentvariables", statement, re.IGNORECASE
    ):
        labels |= behaviour.environment().labels
    return labels


def _judge(behaviour: Behaviour, statement: str, spelled: str, value: Value, line: int) -> None:
    report = behaviour.report
    if _RUN.search(statement) or (_START.search(statement) and value.has("network")):
        behaviour.execute(Value(labels=value.labels), "powershell", line)
        for blob in _BASE64.findall(spelled)[:3]:
            inner = decode_base64(blob)
            behaviour.run_text(constant(inner), "powershell", line) if inner else None
    if _SEND.search(statement) or (_FETCH.search(statement) and value.has("credential", "environment")):
        hosts = find_urls(spelled)
        behaviour.send(constant(f"https://{hosts[0]}/") if hosts else NOTHING, value, line)
    if _PROTECTION.search(statement):
        report.add("danger", "unsafe-mode", line, "Disables the protection of Windows.")
    if _PERSIST.search(statement):
        behaviour.persist("a program that starts automatically", Value(labels=value.labels, texts=(spelled,)), line)
    if _REVERSE.search(statement):
        report.add(
            "danger" if re.search(r"iex|invoke|getstream", report.text, re.IGNORECASE) else "warning",
            "remote-control",
            line,
            "Opens a raw connection to another host.",
        )
    _judge_files(behaviour, statement, value, line)


def _judge_files(behaviour: Behaviour, statement: str, value: Value, line: int) -> None:
    if _WRITE.search(statement):
        for path in _PATH.findall(statement):
            behaviour.write(constant(path.strip()), Value(texts=(statement,), labels=value.labels), line)
    if re.search(r"remove-item.*-recurse", statement, re.IGNORECASE):
        for path in _PATH.findall(statement):
            behaviour.delete(constant(path.strip()), line, recursive=True)
    if re.search(r"clear-history|remove-item.*consolehost_history", statement, re.IGNORECASE):
        behaviour.report.add("danger", "deception", line, "Clears the shell history.")
