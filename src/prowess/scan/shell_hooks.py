"""Commands inside the arguments of other commands: `ssh -o ProxyCommand=…`, `git -c core.pager=…`, `tar --to-command=…`, `sed '1e …'`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from prowess.scan.values import Value, constant

if TYPE_CHECKING:
    from prowess.scan.shell_commands import Command

Code = Value | list[Value]
"""A text for a shell, or a command with its arguments."""

_SSH_SETTING = re.compile(r"\s*(?:Proxy|Local|KnownHosts)Command\s*[= ]\s*(.+)", re.IGNORECASE | re.DOTALL)
_GIT_SETTING = re.compile(
    r"(?:core\.(?:fsmonitor|sshcommand|pager|editor|askpass|gitproxy)|alias\..+?|pager\..+?|sequence\.editor|diff\.external"
    r"|diff\..+?\.(?:command|textconv)|credential\.(?:.+?\.)?helper|merge\..+?\.driver|filter\..+?\.(?:clean|smudge|process)"
    r"|gpg\.(?:.+?\.)?program|remote\..+?\.(?:uploadpack|receivepack)|uploadpack\.packobjectshook)=!?(.+)",
    re.IGNORECASE | re.DOTALL,
)
_GIT_OPTIONS = (
    "--upload-pack", "--receive-pack", "--exec", "--extcmd", "--tree-filter", "--index-filter", "--msg-filter",
    "--env-filter", "--parent-filter", "--commit-filter", "--tag-name-filter",
)  # fmt: skip
_VIM_COMMAND = re.compile(r":?\s*(?:sil(?:ent)?!?\s+|%|\.|\d|r(?:ead)?\s*)*!\s*(.+)", re.DOTALL)
_CALLED = re.compile(r"\b(?:system|systemlist|execute|popen)\s*\(\s*(?:\"((?:[^\"\\]|\\.)*)\"|'([^']*)')")
_SED_COMMAND = re.compile(r"(?:^|[;{}\n\d$])[ \t]*e[ \t]+([^\n]+)")
_SED_SUBSTITUTE = re.compile(
    r"(?:^|[;{}\n\d$])[ \t]*s([^\w\s\\])(?:\\.|(?!\1)[^\\\n]){0,500}\1((?:\\.|(?!\1)[^\\\n]){0,500})\1[gpiIm\d]*e[gpiIm\d]*[ \t]*(?:$|[;}\n])"
)
_AWK_PIPE = re.compile(r"\"((?:[^\"\\]|\\.){1,500})\"\s*\|&?\s*getline")


def find_hooks(command: Command) -> Iterator[Code]:
    """Yield the commands that a command runs besides its own work."""
    finder = _FINDERS.get(command.name)
    if finder is not None:
        yield from finder(command)


def _values(command: Command, *names: str) -> Iterator[Value]:
    """Yield the values of all options with one of these names."""
    for index, arg in enumerate(command.args):
        for name in names:
            text, is_long = arg.text, name.startswith("--")
            if text == name or (not is_long and re.fullmatch(rf"-[A-Za-z]{{1,6}}{re.escape(name[1:])}", text)):
                yield from command.args[index + 1 : index + 2]
            elif is_long and text.startswith(f"{name}="):
                yield Value(texts=(text[len(name) + 1 :],), labels=arg.labels)
            elif not is_long and len(name) == 2 and text.startswith(name):
                yield Value(texts=(text[2:],), labels=arg.labels)


def _options(*names: str) -> Callable[[Command], Iterator[Code]]:
    """Return a finder of the values of options that are commands."""
    return lambda command: _values(command, *names)


def _matched(value: Value, found: re.Match[str] | None) -> Iterator[Value]:
    if found is not None:
        yield Value(texts=(found[1],), labels=value.labels)


def _ssh(command: Command) -> Iterator[Code]:
    for value in _values(command, "-o"):
        yield from _matched(value, _SSH_SETTING.fullmatch(value.text))


def _git(command: Command) -> Iterator[Code]:
    texts = command.texts
    for value in _values(command, "-c"):
        yield from _matched(value, _GIT_SETTING.fullmatch(value.text))
    yield from _values(command, *_GIT_OPTIONS)
    if "clone" in texts:
        yield from _values(command, "-u")
    if "rebase" in texts or "difftool" in texts:
        yield from _values(command, "-x")
    yield from (constant(text[5:]) for text in texts if text.startswith("ext::"))
    for first, second in (("bisect", "run"), ("submodule", "foreach")):
        if first in texts and second in texts:
            rest = command.args[texts.index(second) + 1 :]
            yield rest[0] if len(rest) == 1 else rest


def _tar(command: Command) -> Iterator[Code]:
    yield from _values(command, "--to-command", "--use-compress-program", "-I", "--info-script", "--rsh-command")
    for value in _values(command, "--checkpoint-action"):
        yield from _matched(value, re.fullmatch(r"exec=(.+)", value.text, re.DOTALL))


def _editor(command: Command) -> Iterator[Code]:
    commands = [
        *_values(command, "-c", "--cmd"),
        *(constant(text[1:]) for text in command.texts if text.startswith("+")),
    ]
    for value in commands:
        yield from _matched(value, _VIM_COMMAND.fullmatch(value.text))
        yield from (constant(double or single) for double, single in _CALLED.findall(value.text))


def _debugger(command: Command) -> Iterator[Code]:
    for value in _values(command, "-ex", "--eval-command"):
        yield from _matched(value, re.fullmatch(r"\s*(?:!|shell\s)\s*(.+)", value.text, re.DOTALL))


def _sqlite(command: Command) -> Iterator[Code]:
    for arg in command.args:
        yield from _matched(arg, re.fullmatch(r"\s*\.(?:shell|system)\s+(.+)", arg.text, re.DOTALL))


def _pager(command: Command) -> Iterator[Code]:
    yield from (constant(text[2:]) for text in command.texts if text.startswith("+!"))


def _sed(command: Command) -> Iterator[Code]:
    for script in [*_values(command, "-e", "--expression"), *command.operands("efl")[:1]]:
        yield from (constant(code) for code in _SED_COMMAND.findall(script.text))
        for sign, code in _SED_SUBSTITUTE.findall(script.text):
            yield constant(code.replace(f"\\{sign}", sign))
            yield command.stdin


def _awk(command: Command) -> Iterator[Code]:
    for program in command.operands("fvF")[:1]:
        yield from (constant(code) for code in _AWK_PIPE.findall(program.text))


def _make(command: Command) -> Iterator[Code]:
    yield from _values(command, "--eval", "-E")
    yield from (file for file in _values(command, "-f", "--file") if file.has("network"))


def _expect(command: Command) -> Iterator[Code]:
    for value in _values(command, "-c"):
        yield constant(re.sub(r"\b(?:spawn|exec)[ \t]+", "", value.text))


def _npx(command: Command) -> Iterator[Code]:
    args = command.args[1:] if command.texts[:1] in (["exec"], ["x"]) else command.args
    # Options after the name of a package are those of its program.
    if args and args[0].text in ("-c", "--call"):
        yield from args[1:2]


_FINDERS: dict[str, Callable[[Command], Iterator[Code]]] = {
    **dict.fromkeys(("ssh", "scp", "sftp"), _ssh),
    "rsync": _options("-e", "--rsh"),
    "git": _git,
    **dict.fromkeys(("tar", "gtar", "bsdtar"), _tar),
    **dict.fromkeys(("vim", "vi", "nvim", "ex", "view", "gvim"), _editor),
    "gdb": _debugger,
    "sqlite3": _sqlite,
    **dict.fromkeys(("less", "more"), _pager),
    **dict.fromkeys(("sed", "gsed"), _sed),
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _awk),
    **dict.fromkeys(("make", "gmake"), _make),
    "expect": _expect,
    "zip": _options("-TT", "--unzip-command"),
    "script": _options("-c", "--command"),
    "man": _options("-P", "--pager"),
    **dict.fromkeys(("npx", "npm"), _npx),
    "wget": _options("--use-askpass"),
}
