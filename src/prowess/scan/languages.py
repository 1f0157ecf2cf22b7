"""The table of languages: which analyser reads which code."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import cast

from prowess.scan.behaviour import Behaviour, Language
from prowess.scan.values import NO_LABELS, Label
from prowess.skill.filenames import read_shebang
from prowess.skill.package import File
from prowess.skill.text.reader import readable_text

Analyser = Callable[[Behaviour, str, frozenset[Label]], None]

_MODULES: dict[Language, str] = {
    "shell": "prowess.scan.shell",
    "batch": "prowess.scan.batch",
    "python": "prowess.scan.python",
    "javascript": "prowess.scan.javascript",
    "powershell": "prowess.scan.powershell",
    "text": "prowess.scan.strings",
}
_FENCES: dict[str, Language] = {
    **dict.fromkeys(("bash", "sh", "shell", "zsh", "console", "shell-session", "shellsession", "terminal", "fish", "ksh", "command"), "shell"),
    **dict.fromkeys(("cmd", "bat", "batch", "dos"), "batch"),
    **dict.fromkeys(("python", "py", "python3", "ipython", "pycon"), "python"),
    **dict.fromkeys(("javascript", "js", "typescript", "ts", "jsx", "tsx", "mjs", "node", "cjs", "mts"), "javascript"),
    **dict.fromkeys(("powershell", "ps1", "pwsh", "ps"), "powershell"),
}  # fmt: skip
_ENDINGS: dict[str, Language] = {
    **dict.fromkeys(("sh", "bash", "zsh", "ksh", "command", "fish", "zprofile"), "shell"),
    **dict.fromkeys(("bat", "cmd"), "batch"),
    **dict.fromkeys(("py", "pyw", "pyi"), "python"),
    **dict.fromkeys(("js", "mjs", "cjs", "ts", "mts", "cts", "jsx", "tsx"), "javascript"),
    **dict.fromkeys(("ps1", "psm1", "psd1"), "powershell"),
}  # fmt: skip
_PROGRAMS: tuple[tuple[str, Language], ...] = (
    ("python", "python"), ("node", "javascript"), ("deno", "javascript"), ("bun", "javascript"), ("tsx", "javascript"),
    ("pwsh", "powershell"), ("powershell", "powershell"),
)  # fmt: skip
_OTHER_PROGRAMS = ("perl", "ruby", "php", "lua", "osascript", "Rscript", "tclsh")
"""Programs whose code is searched for commands in its strings."""


def scan_code(behaviour: Behaviour, text: str, language: Language, *, taint: frozenset[Label] = NO_LABELS) -> None:
    """Scan code. `taint` holds the labels of the unknown parts of the text."""
    module = _MODULES.get(language)
    if module is not None:
        # Imported with the first code of a language: most skills are text, and a grammar takes a moment to load.
        cast("Analyser", import_module(module).analyse)(behaviour, text, taint)


def language_of_fence(info: str) -> Language | None:
    """Return the language that the first line of a code block names, or None."""
    word = info.strip().strip("{}.").split(maxsplit=1)
    return _FENCES.get(word[0].lower().strip("{}.").partition(",")[0]) if word else None


def language_of_name(path: str) -> Language | None:
    """Return the language of a file by its ending, or None."""
    return _ENDINGS.get(path.rpartition("/")[2].rpartition(".")[2].lower())


def language_of_first_line(text: str) -> Language | None:
    """Return the language of the program that the first line of a script names, or None."""
    shebang = read_shebang(text)
    if not shebang:
        return None
    return language_of_program(shebang[0]) or ("text" if shebang[0].startswith(_OTHER_PROGRAMS) else "shell")


def text_of_file(file: File) -> str | None:
    """Return the text that a model or an interpreter reads in a file; None for binary data."""
    text = readable_text(file.content)
    if text is not None:
        return text
    # A script runs in spite of some bytes that are not text.
    lossy = file.content.decode("utf-8", "replace")
    return lossy if language_of_name(file.path) or language_of_first_line(lossy) else None


def language_of_program(name: str) -> Language | None:
    """Return the language that an interpreter reads, or None."""
    bare = name.rpartition("/")[2].lower().removesuffix(".exe")
    if bare in ("bash", "sh", "zsh", "dash", "ksh", "ash", "fish", "cmd"):
        return "shell"
    return next((language for word, language in _PROGRAMS if bare.startswith(word)), None)
