"""Shell commands that the scan knows, and what each does with its arguments and its input."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from prowess.scan.behaviour import is_shell
from prowess.scan.decoding import decode_base64, decode_value
from prowess.scan.hosts import looks_like_url
from prowess.scan.languages import language_of_program
from prowess.scan.places import find_place, normalize_path
from prowess.scan.shell_hooks import find_hooks
from prowess.scan.values import NOTHING, UNKNOWN, Value, concat, constant, join_labels

if TYPE_CHECKING:
    from prowess.scan.shell import Shell

Handler = Callable[["Shell", "Command"], Value]

_WRAPPERS = {
    "sudo": 0, "doas": 0, "env": 0, "nohup": 0, "time": 0, "timeout": 1, "nice": 0, "command": 0, "exec": 0, "builtin": 0, "setsid": 0,
    "stdbuf": 0, "busybox": 0, "caffeinate": 0, "unbuffer": 0, "xargs": 0, "ionice": 0, "then": 0, "do": 0, "else": 0, "watch": 0, "call": 0, "start": 0,
    "proxychains": 0, "proxychains4": 0, "torsocks": 0, "firejail": 0, "chroot": 1, "parallel": 0, "flock": 1, "taskset": 1, "chrt": 1, "unshare": 0, "systemd-run": 0, "strace": 0,
}  # fmt: skip

"""Commands that run another one, with how many arguments come before it."""

_VALUE_OPTIONS = {
    "sudo": "ugpCT",
    "env": "uCS",
    "nice": "n",
    "timeout": "ks",
    "xargs": "IndLPs",
    "stdbuf": "",
    "watch": "n",
    "ionice": "cn",
    "exec": "a",
    "parallel": "j",
}

_ENVIRONMENT = re.compile(r"^\w+=")


class Command:
    """One command with its arguments, its input, and its line."""

    def __init__(self, name: str, args: list[Value], stdin: Value, line: int, *, via_xargs: bool = False) -> None:
        self.name, self.args, self.stdin, self.line, self.via_xargs = name, args, stdin, line, via_xargs

    @property
    def texts(self) -> list[str]:
        """The first text of each argument."""
        return [arg.text for arg in self.args]

    @property
    def data(self) -> Value:
        """Everything the command sees: arguments and input."""
        return Value(labels=join_labels([*self.args, self.stdin]))

    def has(self, *options: str) -> bool:
        """Return True if one of the options is given, also inside a group of short ones (`-rf`)."""
        return any(_has_option(text, option) for text in self.texts for option in options)

    def operands(self, takes_value: str = "", long_values: Sequence[str] = ()) -> list[Value]:
        """Return the arguments that are not options or values of options."""
        found: list[Value] = []
        skip = False
        for arg in self.args:
            text = arg.text
            if skip:
                skip = False
            elif text.startswith("--"):
                skip = text in long_values
            elif text.startswith("-") and len(text) > 1:
                skip = text[-1] in takes_value and len(text) == 2
            else:
                found.append(arg)
        return found

    def option(self, *names: str) -> Value | None:
        """Return the value of the first of these options that is given."""
        for index, arg in enumerate(self.args):
            for name in names:
                if arg.text == name or (
                    not name.startswith("--") and len(name) == 2 and _is_group_ending(arg.text, name[1])
                ):
                    return self.args[index + 1] if index + 1 < len(self.args) else NOTHING
                if name.startswith("--") and arg.text.startswith(name + "="):
                    return Value(texts=(arg.text.partition("=")[2],), labels=arg.labels)
                if not name.startswith("--") and len(name) == 2 and arg.text.startswith(name) and len(arg.text) > 2:
                    return Value(texts=(arg.text[2:],), labels=arg.labels)
        return None


def _has_option(text: str, option: str) -> bool:
    if option.startswith("--"):
        return text == option or text.startswith(option + "=")
    if text == option:
        return True
    return (
        len(option) == 2
        and text.startswith("-")
        and not text.startswith("--")
        and option[1] in text[1:8]
        and text[1:].isalpha()
    )


def _is_group_ending(text: str, letter: str) -> bool:
    return bool(re.fullmatch(rf"-[a-zA-Z]{{1,6}}{re.escape(letter)}", text))


def run_command(shell: Shell, words: list[Value], stdin: Value, line: int) -> Value:
    """Follow one command; return its output."""
    via_xargs = False
    for _ in range(8):
        if not words:
            return NOTHING
        alias = shell.aliases.get(words[0].text)
        if alias is not None and alias.text.split()[:1] != [words[0].text]:
            words = [*(Value(texts=(text,), labels=alias.labels) for text in alias.text.split()), *words[1:]]
            continue
        name = words[0].text.rpartition("/")[2].lower().removesuffix(".exe").lstrip("\\@")
        if (
            name in _WRAPPERS
            and len(words) > 1
            and not (name == "env" and all(_ENVIRONMENT.match(word.text) for word in words[1:]))
        ):
            via_xargs = via_xargs or name in ("xargs", "parallel")
            words = _unwrap(name, words)
            continue
        break
    else:
        return NOTHING
    if not words:
        return NOTHING
    command = Command(name, words[1:], stdin, line, via_xargs=via_xargs)
    if via_xargs:
        # The input takes the place of `{}`, or follows the arguments.
        command.args = [_fill_in(arg, stdin) for arg in command.args] + [Value(labels=stdin.labels)]
    if words[0].has("network", "decoded"):
        shell.behaviour.execute(Value(texts=(UNKNOWN,), labels=words[0].labels), "shell", line)
    called = shell.call_function(words[0].text, command.args, stdin)
    if called is not None:
        return called
    _run_written_file(shell, words[0], line)
    _run_hooks(shell, command)
    handler = shell.table.get(name) or shell.table.get(name.rstrip("0123456789."))
    shell.behaviour.run_program(name, line) if handler is None and name not in _QUIET else None
    return handler(shell, command) if handler else _run_other(shell, command)


def _fill_in(arg: Value, stdin: Value) -> Value:
    if "{}" not in arg.text:
        return arg
    return Value(texts=(arg.text.replace("{}", UNKNOWN),), labels=arg.labels | stdin.labels)


def _unwrap(name: str, words: list[Value]) -> list[Value]:
    rest = words[1:]
    operands = _WRAPPERS[name]
    while rest:
        text = rest[0].text
        if name == "env" and text in ("-S", "--split-string"):
            return [constant("sh"), constant("-c"), *rest[1:2]]
        if text.startswith("-"):
            takes = len(text) == 2 and text[1] in _VALUE_OPTIONS.get(name, "")
            rest = rest[2 if takes else 1 :]
        elif name in ("env", "sudo") and _ENVIRONMENT.match(text):
            rest = rest[1:]
        elif operands:
            operands -= 1
            rest = rest[1:]
        else:
            break
    return rest


_WINDOWS_PROGRAMS = (".exe", ".bat", ".cmd", ".com")


def _run_written_file(shell: Shell, program: Value, line: int) -> None:
    """Judge a program that this script wrote or downloaded before."""
    # Windows runs a program of the current folder by its bare name.
    if "/" in program.text or program.text.startswith(".") or program.text.lower().endswith(_WINDOWS_PROGRAMS):
        written = shell.behaviour.files.get(normalize_path(program.text))
        if written is not None:
            shell.behaviour.execute(written, "shell", line)


def _run_hooks(shell: Shell, command: Command) -> None:
    """Follow the commands in the arguments of a command."""
    for hook in find_hooks(command):
        # They may contain commands with commands in their arguments.
        shell.behaviour.report.budget.spend(20)
        if isinstance(hook, list):
            run_command(shell, hook, NOTHING, command.line)
        else:
            shell.behaviour.execute(hook, "shell", command.line)


def _run_other(shell: Shell, command: Command) -> Value:
    """Follow a command that is not in the table: its output may contain its input."""
    behaviour = shell.behaviour
    reads = [behaviour.read(arg, command.line) for arg in command.args if find_place(arg.text) is not None]
    return Value(labels=join_labels([command.stdin, *reads]))


# Running


_CODE_OPTIONS = {"php": ("-r",), "node": ("-p",), "bun": ("-p",)}


def _interpreter(shell: Shell, command: Command) -> Value:
    behaviour, line = shell.behaviour, command.line
    language = language_of_program(command.name)
    if language == "powershell":
        return _powershell(shell, command)
    code = (
        command.option("-c", "-e", "--eval", "-lc", "-ic", "/c", "/C", *_CODE_OPTIONS.get(command.name, ()))
        if command.name != "bash" or "-e" not in command.texts
        else command.option("-c")
    )
    if code is not None:
        behaviour.execute(code, language or "text", line)
        return Value(labels=command.data.labels)
    operands = command.operands("OWXmo")
    if command.has("-m"):
        # `python -m pip …` is pip.
        rest = command.args[command.texts.index("-m") + 1 :] if "-m" in command.texts else []
        return run_command(shell, rest, command.stdin, line) if rest else NOTHING
    script = next((operand for operand in operands if operand.text not in _STDIN), None)
    if script is not None and not (command.has("-s") and command.stdin is not NOTHING):
        content = script if script.name == "stream" else behaviour.files.get(normalize_path(script.text))
        if content is not None or script.has("network"):
            behaviour.execute(content or script, language or "text", line)
        return Value(labels=command.stdin.labels)
    if command.stdin is not NOTHING:
        behaviour.execute(command.stdin, language or "text", line)
    return Value(labels=command.stdin.labels)


def _powershell(shell: Shell, command: Command) -> Value:
    for index, text in enumerate(command.texts):
        if re.fullmatch(
            r"[-/]e(nc?(o(d(e(d(c(o(m(m(a(nd?)?)?)?)?)?)?)?)?)?)?)?|[-/]ec", text.lower()
        ) and index + 1 < len(command.args):
            value = decode_value(command.args[index + 1], decode_base64)
            shell.behaviour.execute(value, "powershell", command.line)
            return NOTHING
    rest = [
        text
        for text in command.texts
        if not re.fullmatch(
            r"[-/](c|command|nop|noprofile|w|windowstyle|ep|exec|executionpolicy|noni|noninteractive|sta)|hidden|bypass|unrestricted",
            text.lower(),
        )
    ]
    code = Value(texts=(" ".join(rest),), labels=join_labels([*command.args, command.stdin]))
    shell.behaviour.execute(code, "powershell", command.line)
    return NOTHING


def _eval(shell: Shell, command: Command) -> Value:
    shell.behaviour.execute(concat(command.args, " ") if command.args else NOTHING, "shell", command.line)
    return NOTHING


def _source(shell: Shell, command: Command) -> Value:
    if command.args:
        file = command.stdin if command.args[0].text in _STDIN else command.args[0]
        content = file if file.name == "stream" else shell.behaviour.files.get(normalize_path(file.text))
        if content is not None or file.has("network"):
            shell.behaviour.execute(content or file, "shell", command.line)
    return NOTHING


def _su(shell: Shell, command: Command) -> Value:
    shell.behaviour.execute(command.option("-c", "--command") or command.stdin, "shell", command.line)
    return NOTHING


def _trap(shell: Shell, command: Command) -> Value:
    operands = command.operands()
    if len(operands) > 1:
        shell.behaviour.execute(operands[0], "shell", command.line)
    return NOTHING


def _read(shell: Shell, command: Command) -> Value:
    """Follow `read` and `mapfile`: the variables hold the input."""
    if command.stdin is not NOTHING:
        names = [text for text in command.texts if text.isidentifier()]
        shell.variables |= dict.fromkeys(names or ["REPLY", "MAPFILE"], command.stdin)
    return NOTHING


def _alias(shell: Shell, command: Command) -> Value:
    for arg in command.args:
        name, sign, text = arg.text.partition("=")
        if sign:
            shell.aliases[name] = Value(texts=(text,), labels=arg.labels)
    return NOTHING


def set_arguments(shell: Shell, command: Command) -> Value:
    """Follow `set -- …`: the words become the arguments of the script."""
    if "--" in command.texts:
        words = command.args[command.texts.index("--") + 1 :]
        shell.variables |= {str(index): word for index, word in enumerate(words[:9], start=1)}
        shell.variables["@"] = shell.variables["*"] = Value(
            texts=concat(words, " ").texts, labels=join_labels(words), items=tuple(words[:64])
        )
    return NOTHING


def _coprocess(shell: Shell, command: Command) -> Value:
    """Follow `coproc [NAME] …`: its output can be read from a descriptor in the variable."""
    words, name = command.args, "COPROC"
    if len(words) > 2 and words[1].text in ("{", "("):
        words, name = words[2:], words[0].text
    output = run_command(shell, words, NOTHING, command.line) if words else NOTHING
    shell.variables[name] = Value(texts=output.texts, labels=output.labels, name="stream")
    return NOTHING


_STDIN = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
_QUIET = frozenset({
    "cd", "set", "true", "false", "exit", "return", "shift", "pwd", "clear", "echo", "[", "[[", "read", "wait",
    "trap", "local", "export", "if", "fi", "done", ":",
})  # fmt: skip


def is_remote(text: str) -> bool:
    """Return True for `user@host:path`, a URL or a bucket."""
    return bool(re.match(r"^(?:[\w.-]*@)?[\w.-]+:(?!\\)\S*$|^\w+://", text)) or looks_like_url(text)


def starts_shell(words: Sequence[str]) -> bool:
    """Return True if one of the words is a shell."""
    return any(
        is_shell(word.removeprefix("EXEC:").removeprefix("exec:").partition(",")[0].strip("'\"")) for word in words
    )


RUNNERS: dict[str, Handler] = {
    **dict.fromkeys(("bash", "sh", "zsh", "dash", "ksh", "ash", "fish", "python", "python3", "node", "perl", "ruby", "php", "deno", "bun", "pwsh", "powershell", "cmd", "osascript", "lua", "tclsh"), _interpreter),
    "eval": _eval,
    "su": _su,
    "trap": _trap,
    "alias": _alias,
    "coproc": _coprocess,
    **dict.fromkeys(("read", "mapfile", "readarray"), _read),
    **dict.fromkeys(("source", "."), _source),
}  # fmt: skip
"""Commands that run code."""
