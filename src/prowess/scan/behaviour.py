"""Judge what code does, in the same way for every language: read, write, fetch, send, execute.

The analysers of the languages call these methods with values. Findings follow from where data comes from and where it goes,
so that one rule (a credential reaches a request, a download reaches `exec`) covers every way to write it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from prowess.scan.finding import SEVERITIES, Finding, Report, Severity
from prowess.scan.hosts import UNTRUSTED, classify_host, is_foreign_secret, is_token_name, read_host
from prowess.scan.places import (
    Place,
    find_place,
    is_concealed,
    is_home_or_root,
    is_outside,
    is_private_folder,
    normalize_path,
)
from prowess.scan.values import NOTHING, UNKNOWN, Label, Value, join_labels

Language = Literal["shell", "batch", "python", "javascript", "powershell", "text"]
MAX_DEPTH = 4
"""How deeply code inside code is followed."""

_GRAVE_PAYLOADS = frozenset({
    "download-execute", "encoded-execute", "exfiltration", "remote-control", "host", "persistence", "unsafe-mode",
    "override",
})  # fmt: skip
"""Findings that make a line for a shell profile or a job dangerous: such a line would run repeatedly and unnoticed."""
_SSH_KEY = re.compile(r"(ssh-(rsa|ed25519|dss)|ecdsa-sha2-\w+|sk-ssh-ed25519@\S+) AAAA[A-Za-z0-9+/]{12,}")
_UNSAFE_SETTINGS = re.compile(
    r"bypassPermissions|dangerously|skipPermissions|\"?Bash\(\*\)|autoApprove|auto_approve|alwaysAllow|yolo|approval_policy\s*=\s*\"never\"|danger-full-access|enableAllProjectMcpServers",
    re.IGNORECASE,
)
_COMMAND_IN_MARKUP = re.compile(
    r"<string>([^<]{1,2000})</string>|^[^\S\n]*+Exec(?:Start|StartPre|Stop)\s*=\s*(.+)$", re.MULTILINE
)
_SHELL_BINARY = re.compile(r"(^|/)(ba|z|da|k|a|fi)?sh$|(^|/)(cmd|powershell|pwsh)(\.exe)?$")


@dataclass(slots=True)
class Behaviour:
    """The behaviour of one file. `files` records what the code wrote to each path."""

    report: Report
    files: dict[str, Value] = field(default_factory=dict[str, Value])
    constants: list[str] = field(default_factory=list[str])

    def nested(self, text: str, line: int | None) -> Behaviour:
        """Return the behaviour of code inside this code."""
        return Behaviour(report=self.report.nested(text, line), files=self.files)

    # Sources

    def read(self, path: Value, line: int | None, *, quiet: bool = False) -> Value:
        """Return the content of a file as a value, labelled by the type of the file."""
        labels = set(path.labels - {label for label in path.labels if label.kind == "network"})
        for text in path.texts:
            key = normalize_path(text)
            written = self.files.get(key) if key != UNKNOWN else None
            if written is not None:
                return written
            place = find_place(text)
            if place is not None and place.kind in ("credential", "ssh-access"):
                labels.add(Label("credential", place.label))
                if not quiet:
                    self._note_credential(place, line)
            elif is_private_folder(text):
                labels.add(Label("private", normalize_path(text)))
            self._note_outside(text, line, "Reads")
        return Value(labels=frozenset(labels))

    def _note_credential(self, place: Place, line: int | None) -> None:
        # Every project has an environment file, and the tools that read it are many.
        severity: Severity = "info" if "(.env)" in place.label else "warning"
        self.report.add(severity, "credentials", line, f"Reads {place.label}.")

    def _note_outside(self, text: str, line: int | None, verb: str) -> None:
        if text and len(text) < 300 and is_outside(text):
            label = normalize_path(text).replace(UNKNOWN, "…")
            self.report.add("info", "outside-file", line, f"{verb} a file outside the skill: {label}")

    def variable(self, name: str, line: int | None) -> Value:
        """Return an environment variable as a value."""
        if name in ("HOME", "USERPROFILE"):
            return Value(texts=("~",))
        if is_token_name(name):
            self.report.add("info", "credentials", line, f"Reads the environment variable {name[:80]}.")
            return Value(labels=frozenset({Label("secret", name)}))
        return NOTHING

    def environment(self) -> Value:
        """Return the whole environment as a value."""
        return Value(name="environment", labels=frozenset({Label("environment", "the whole environment")}))

    def secret_store(self, what: str, line: int | None) -> Value:
        """Return the output of a password store or a login command."""
        self.report.add("warning", "credentials", line, f"Reads {what}.")
        return Value(labels=frozenset({Label("credential", what)}))

    def fetch(self, url: Value, line: int | None) -> Value:
        """Return the result of a download, labelled with its address."""
        labels: set[Label] = set()
        for text in url.texts:
            host = read_host(text)
            if host:
                self._note_host(text, host, line)
            labels.add(Label("network", text if host else ""))
        return Value(labels=frozenset(labels))

    def _note_host(self, url: str, host: str, line: int | None) -> None:
        kind = classify_host(url)
        label = host.replace(UNKNOWN, "…")
        if kind in UNTRUSTED:
            self.report.add("warning", "host", line, f"Contacts {label}, {_HOST_WORDS[kind]}.")
        elif kind != "local":
            self.report.add("info", "host", line, f"Contacts {label}.")

    # Where data ends up

    def send(self, url: Value, data: Value, line: int | None, *, header: bool = False) -> None:
        """Judge data that leaves this machine. In a header, a secret is the normal way to log in."""
        host = read_host(url.text)
        if host and classify_host(url.text) == "local":
            return
        receiver = (host or "another host").replace(UNKNOWN, "…")
        stolen = Value(labels=data.labels | url.labels).has("credential", "environment")
        if stolen and not header:
            self.report.add(
                "danger", "exfiltration", line, f"Sends {stolen.detail} to {receiver}.",
                hint="Do not use this skill unless you know why that host needs this data.",
            )  # fmt: skip
            return
        private = data.has("private")
        if private:
            self.report.add("danger", "exfiltration", line, f"Sends {private.detail} to {receiver}.")
        for label in sorted(data.labels | url.labels, key=lambda label: label.detail):
            if label.kind == "secret" and host and is_foreign_secret(label.detail, host):
                severity: Severity = "warning" if header else "danger"
                self.report.add(
                    severity, "exfiltration", line, f"Sends {label.detail} to {receiver}, which did not issue it."
                )

    def write(self, path: Value, data: Value, line: int | None, *, append: bool = False) -> None:
        """Judge a write: the place, and the data."""
        for text in path.texts:
            self.files[normalize_path(text)] = data
            place = find_place(text)
            if place is None:
                self._note_outside(text, line, "Writes")
            elif place.kind == "log" and append:
                continue
            elif place.kind == "log":
                self.report.add("danger", "deception", line, f"Overwrites {place.label}.")
            elif place.kind == "credential" and "history" in place.label:
                self.report.add("danger", "deception", line, "Overwrites the shell history.")
            elif place.kind == "agent":
                self._judge_agent_write(place, data, line)
            elif place.kind != "credential":
                self._judge_startup_write(place, data, line)
            else:
                self._note_outside(text, line, "Writes")

    def _judge_agent_write(self, place: Place, data: Value, line: int | None) -> None:
        texts = [text for text in data.texts if text != UNKNOWN] or self.constants
        unsafe = any(_UNSAFE_SETTINGS.search(text) for text in texts) or self._is_grave_payload(data, line)
        severity: Severity = "danger" if unsafe else "warning"
        kind = "agent-settings"
        self.report.add(
            severity,
            kind,
            line,
            f"Changes {place.label}"
            + (" to run commands that were not approved or come from elsewhere." if unsafe else "."),
        )

    def _judge_startup_write(self, place: Place, data: Value, line: int | None) -> None:
        if place.kind == "ssh-access":
            grave = any(_SSH_KEY.search(text) for text in data.texts) or data.has("network", "decoded") is not None
        else:
            grave = self._is_grave_payload(data, line)
        severity: Severity = "danger" if grave else "warning"
        self.report.add(
            severity, "persistence", line, f"Writes to {place.label}.", hint="Content written there takes effect later, outside this skill."
        )  # fmt: skip

    def persist(self, what: str, data: Value, line: int | None) -> None:
        """Judge a command that sets something up to run later."""
        severity: Severity = "danger" if self._is_grave_payload(data, line) else "warning"
        self.report.add(
            severity, "persistence", line, f"Sets up {what}.", hint="It runs again later, outside this skill."
        )

    def _is_grave_payload(self, data: Value, line: int | None) -> bool:
        """Return True if a text that will run later reaches a host, runs a download or hides."""
        if data.has("network", "decoded"):
            return True
        known = [text for text in data.texts if text.strip(UNKNOWN).strip()]
        for text in (known or self.constants)[:20]:
            if is_concealed_program(text) or any(
                finding.kind in _GRAVE_PAYLOADS for finding in self._preview(text, line)
            ):
                return True
        return False

    def _preview(self, text: str, line: int | None) -> list[Finding]:
        """Return the findings of scanning a payload, without reporting them."""
        if self.report.depth >= MAX_DEPTH or len(text) < 8:
            return []
        from prowess.scan.languages import scan_code

        commands = "\n".join(first or second for first, second in _COMMAND_IN_MARKUP.findall(text))
        # A line of a crontab starts with five fields for the time.
        plain = re.sub(r"(?m)^[^\S\n]*+(?:(?:[\d*/,-]++\s++){5}|@\w++\s++)", "", commands or text)
        trial = Report(
            path=self.report.path,
            text=plain,
            budget=self.report.budget,
            depth=self.report.depth + 1,
            fixed_line=line or 1,
        )
        scan_code(Behaviour(report=trial, files=dict(self.files)), plain, "shell")
        return [finding for finding in trial.findings if finding.kind != "host" or "Contacts" in finding.message]

    def execute(self, code: Value, language: Language, line: int | None) -> None:
        """Judge code that runs: where it comes from, and what it does if its text is known."""
        embedded = _is_embedded(code, language)
        if code.has("network") and not embedded:
            self._judge_download(code, line, language)
        if code.has("decoded") and not embedded:
            self.report.add(
                "danger", "encoded-execute", line, "Runs code that is stored in encoded form.", hint="Decode the code and read it before you run it."
            )  # fmt: skip
        if code.is_known or embedded:
            self.run_text(code, language, line)

    def run_text(self, code: Value, language: Language, line: int | None) -> None:
        """Scan the known text of code that runs inside this code."""
        if self.report.depth >= MAX_DEPTH or not code.text.strip():
            return
        from prowess.scan.languages import scan_code

        scan_code(self.nested(code.text, line), code.text, language, taint=join_labels([code]))

    def _judge_download(self, code: Value, line: int | None, language: Language) -> None:
        addresses = sorted((label.detail for label in code.labels if label.kind == "network"), reverse=True)
        # The worst of them counts: a trusted address next to another one changes nothing.
        worst = min(addresses, key=lambda address: SEVERITIES.index(self._rate_download(address, language)))
        words = read_host(worst).replace(UNKNOWN, "…")
        message = f"Runs code that it downloads from {words}." if words else "Runs code that it downloads."
        hint = "Download the code, read it, and run the copy that you have read."
        self.report.add(self._rate_download(worst, language), "download-execute", line, message, hint=hint)

    def _rate_download(self, address: str, language: Language) -> Severity:
        kind = classify_host(address) if address else "other"
        # Without encryption, anyone on the way can change what runs.
        if address.lower().startswith("http://") and kind != "local":
            return "danger"
        # Instructions often say to run an installer of a public repository. A program that does it by itself is another matter.
        by_hand = language == "shell" and self.report.path.lower().endswith(".md")
        if kind == "known" and by_hand:
            return "warning"
        return "info" if kind in ("local", "installer") else "danger"

    def run_program(self, name: str, line: int | None) -> None:
        """Record that a program is started."""
        label = name.replace(UNKNOWN, "…").strip()[:60]
        if label and label != "…":
            self.report.add("info", "shell", line, f"Runs {label}.")

    def remote_shell(self, line: int | None) -> None:
        """Report a shell whose input and output are a network connection."""
        self.report.add("danger", "remote-control", line, "Gives another host a shell on this machine.")

    def delete(self, path: Value, line: int | None, *, recursive: bool) -> None:
        """Judge a deletion."""
        for text in path.texts:
            place = find_place(text)
            if recursive and text != UNKNOWN and is_home_or_root(text):
                self.report.add("danger", "destruction", line, "Deletes a whole home folder or disk.")
            elif place is not None and (place.kind == "log" or "history" in place.label):
                self.report.add("danger", "deception", line, f"Removes {place.label}.")
            elif place is not None:
                self.report.add("warning", "outside-file", line, f"Deletes {place.label}.")


def _is_embedded(code: Value, language: Language) -> bool:
    """Return True if the only unknown parts of the code are values in it: arguments of a command, or quoted text."""
    known = code.text.replace(UNKNOWN, "").strip()
    if code.is_known or len(known) < 8:
        return False
    if language == "shell":
        return True
    quoted = re.sub(r"'[^'\n]*'|\"[^\"\n]*\"|`[^`]*`", "", code.text)
    return UNKNOWN not in quoted


def is_concealed_program(text: str) -> bool:
    """Return True if a line runs a program from a hidden or temporary folder."""
    return any(is_concealed(word) for word in text.replace('"', " ").split()[:40])


def is_shell(program: str) -> bool:
    """Return True for the name or path of a shell."""
    return bool(_SHELL_BINARY.search(program.strip().lower()))


_HOST_WORDS = {
    "address": "a bare network address",
    "drop": "a service where anyone can collect data",
    "snippet": "a service where anyone can post text",
    "shortener": "a short link that hides its target",
    "tunnel": "a tunnel to a private machine",
}
