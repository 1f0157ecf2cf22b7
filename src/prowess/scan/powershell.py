"""Scan PowerShell code. There is no grammar for it here, so statements are split manually and aliases are resolved."""

from __future__ import annotations

import re
from collections.abc import Mapping

from prowess.scan.behaviour import Behaviour
from prowess.scan.decoding import decode_base64
from prowess.scan.hosts import find_urls
from prowess.scan.places import find_place, normalize_path
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
_SAVED = re.compile(
    r"-(?:outfile|destination)\s+['\"]?([^\s'\"]+)|downloadfile\s*\([^,\n]{0,500},\s*['\"]?([^)'\"\n]+)", re.IGNORECASE
)
_STARTED = re.compile(
    r"(?:\b(?:start-process|saps|start|invoke-item|ii)\s|&|^)\s*(?:-filepath\s+)?['\"]?([^\s'\"|&]+)", re.IGNORECASE
)
_PROTECTION = re.compile(
    r"set-mppreference.*(?:disablerealtimemonitoring|exclusionpath)|add-mppreference.*exclusion|set-netfirewallprofile.*enabled\s+false|stop-service.*(?:windefend|sense)|disable-windowsoptionalfeature.*defender",
    re.IGNORECASE,
)
_PERSIST = re.compile(
    r"register-scheduledtask|new-scheduledtask|new-service|currentversion[\\/]+run|start menu\\programs\\startup",
    re.IGNORECASE,
)
_REVERSE = re.compile(r"net\.sockets\.tcpclient", re.IGNORECASE)
_MAX_ROUNDS = 40

_TICK = re.compile(r"(?<=[\w-])`(?=[\w-])")
_TEXT = r"'([^'\n]{0,200})'"
_ADDED = re.compile(rf"{_TEXT}\s*\+\s*{_TEXT}")
_CHAR = re.compile(r"\[char\]\s*(?:\(\s*)?(\d{2,3})\)?", re.IGNORECASE)
_FORMATTED = re.compile(r"'((?:\{\d\}){1,20})'\s*-f\s*('[^'\n]*'(?:\s*,\s*'[^'\n]*'){0,19})", re.IGNORECASE)
_JOINED = re.compile(r"-join\s*\(\s*('[^'\n]*'(?:\s*,\s*'[^'\n]*'){0,40})\s*\)", re.IGNORECASE)
_REPLACED = re.compile(rf"{_TEXT}(?:\s+-c?replace\s+|\.replace\s*\(\s*){_TEXT}\s*,\s*{_TEXT}\s*\)?", re.IGNORECASE)
_REVERSED = re.compile(rf"{_TEXT}\s*\[\s*(?:-1|\d+)\s*\.\.\s*(?:-\d+|0)\s*\]\s*-join\s*''", re.IGNORECASE)
_INVOKED = re.compile(r"(^|[|;({=\s])[&.]\s*\(*\s*(?:'([\w-]+)'|\$(\w+))\s*\)*")
_PICKED = re.compile(
    r"(?:^|[|;({=\s])[&.]\s*\(\s*\$(?:env:comspec|shellid|pshome|verbosepreference(?:\.tostring\(\))?)\s*\[",
    re.IGNORECASE,
)
_COMMAND = re.compile(r"(^\s*|[|({=]\s*)([\w-]+)(?=\s)")
_ALIAS = re.compile(
    r"\b(?:set-alias|new-alias|sal|nal)\s+(?:-name\s+)?['\"]?([\w-]+)['\"]?\s+(?:-value\s+)?['\"]?([\w-]+)",
    re.IGNORECASE,
)


def analyse(behaviour: Behaviour, text: str, taint: frozenset[Label] = NO_LABELS) -> None:
    """Scan PowerShell code, statement by statement."""
    variables: dict[str, Value] = {}
    aliases: dict[str, str] = {}
    lines = re.sub(r"`\r?\n", " ", behaviour.report.cut(text, MAX_CHARS)).split("\n")
    for number, line in enumerate(lines, start=1):
        behaviour.report.budget.spend()
        if not line.lstrip().startswith("#"):
            for statement in line.split(";"):
                _run(behaviour, _spell_out(statement[:4000], variables, aliases), number, variables, taint)


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
    for path in _STARTED.findall(statement):
        written = behaviour.files.get(normalize_path(path))
        if written is not None:
            behaviour.execute(written, "powershell", line)
    if saved := _SAVED.search(statement) if _FETCH.search(statement) else None:
        behaviour.files[normalize_path(saved[1] or saved[2])] = value
    if _WRITE.search(statement):
        for path in _PATH.findall(statement):
            behaviour.write(constant(path.strip()), Value(texts=(statement,), labels=value.labels), line)
    if re.search(r"remove-item.*-recurse", statement, re.IGNORECASE):
        for path in _PATH.findall(statement):
            behaviour.delete(constant(path.strip()), line, recursive=True)
    if re.search(r"clear-history|remove-item.*consolehost_history", statement, re.IGNORECASE):
        behaviour.report.add("danger", "deception", line, "Clears the shell history.")


def _spell_out(statement: str, variables: Mapping[str, Value], aliases: dict[str, str]) -> str:
    """Return a statement with the names of its commands in one piece, and remember the aliases that it sets."""
    text = _TICK.sub("", statement) if "`" in statement else statement
    if defined := _ALIAS.search(text):
        aliases[defined[1].lower()] = defined[2]
    if "&" in text or "." in text:
        text = _put_together(text, variables)
    if aliases:
        text = _COMMAND.sub(lambda found: found[1] + aliases.get(found[2].lower(), found[2]), text)
    return text


def _put_together(text: str, variables: Mapping[str, Value]) -> str:
    if _PICKED.search(text):  # `&($ShellId[1]+$ShellId[13]+'x')`: letters picked from a text that every machine has
        return _PICKED.sub(" iex ", text)
    whole = re.sub(r"\$(\w+)(?=\s*[+)])|(?<=\+)\s*\$(\w+)", lambda found: _quote(found, variables), text)
    whole = _CHAR.sub(lambda found: f"'{chr(int(found[1]))}'" if int(found[1]) < 128 else found[0], whole)
    for _ in range(_MAX_ROUNDS):
        before = whole
        whole = _REVERSED.sub(lambda found: f"'{found[1][::-1]}'", whole, count=1)
        whole = _REPLACED.sub(
            lambda found: f"'{found[1].replace(found[2], found[3]) if found[2] else found[1]}'", whole, 1
        )
        whole = _FORMATTED.sub(lambda found: _format(found[1], _texts(found[2])), whole, count=1)
        whole = _JOINED.sub(lambda found: f"'{''.join(_texts(found[1]))}'", whole, count=1)
        whole = _ADDED.sub(lambda found: f"'{found[1]}{found[2]}'", whole, count=1)
        if whole == before:
            break

    def invoked(found: re.Match[str]) -> str:
        value = variables.get((found[3] or "").lower())
        name = found[2] or (value.text if value is not None and value.is_known else "")
        return f"{found[1]}{name} " if re.fullmatch(r"[\w-]+", name) else found[0]

    return _INVOKED.sub(invoked, whole)


def _quote(found: re.Match[str], variables: Mapping[str, Value]) -> str:
    value = variables.get((found[1] or found[2]).lower())
    return f"'{value.text}'" if value is not None and value.is_known and "'" not in value.text else found[0]


def _texts(listed: str) -> list[str]:
    return re.findall(r"'([^'\n]*)'", listed)


def _format(form: str, texts: list[str]) -> str:
    numbers = [int(number) for number in re.findall(r"\d", form)]
    return "'" + "".join(texts[number] for number in numbers if number < len(texts)) + "'"
