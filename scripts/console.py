"""Play the terminal sessions of documentation pages, and write what the commands print: `python scripts/console.py PAGE...`.

In a ```console block, a line that starts with "$ " is a command, and the lines below it are its output. All blocks of a page
are one session: it starts in a copy of a checkout, with an empty home folder. A block with `title="FILE"` is a file that the
reader writes at this point.

Output that the page does not show is not checked. A line "…" stands for any number of lines, and "…" within a line for any
text. Ids and times differ between runs, so pages show fixed ones. Questions at the terminal are answered with "y".
"""

from __future__ import annotations

import contextlib
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from prowess.interfaces.cli.main import run
from prowess.match import matcher
from prowess.sandbox.wasm.component import ensure_component

ROOT = Path(__file__).resolve().parents[1]
SIDECAR = ROOT / ".venv" / "sidecar" / "bin" / "python"
COLUMNS = 88
ASKS_A_PERSON = re.compile(r"prowess (trust|approvals (approve|deny)|compose approve)\b")
PARTS = re.compile(r"^```(?P<info>[^\n]*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
ID = re.compile(r"(?<![\w-])([0-9a-f]{8})((?:-[0-9a-f]{4}){3}-[0-9a-f]{12})?(?![\w-])")
SPINNER = re.compile(r"\x1b\[\?25l.*?\x1b\[\?25h\r\x1b\[1A\x1b\[2K", re.DOTALL)
TIMES = (
    (re.compile(r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?\b"), "2026-11-16 09:00:00"),
    (re.compile(r"\b\d+ ms\b"), "12 ms"),
    (re.compile(r"\b\d+\.\d s\b"), "0.1 s"),
)


class Terminal:
    """A shell with a home folder of its own and a copy of the examples."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.has_colors = False
        self.folder = home / "prowess"
        self.folder.mkdir(parents=True)
        shutil.copytree(ROOT / "examples", self.folder / "examples")
        self._ids: dict[str, str] = {}
        names = ("PATH", "LANG", "TMPDIR", "LD_LIBRARY_PATH")
        self.environment = {name: os.environ[name] for name in names if name in os.environ} | {
            "HOME": str(home),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "COLUMNS": str(COLUMNS),
            "NO_COLOR": "1",
            "TERM": "dumb",
            "USER": "ada",
            "LOGNAME": "ada",
            "PROWESS_BACKGROUND": "off",
            # Nothing is installed while pages are played.
            "PROWESS_SIDECAR": str(SIDECAR) if SIDECAR.exists() else "off",
        }

    def give_sandbox(self) -> None:
        """Use the interpreter of the sandbox that tests built: it takes a minute to build."""
        kept = Path(os.environ.get("PROWESS_TEST_KEPT", tempfile.gettempdir()))
        built = kept / f"prowess-sandbox-{os.getuid()}"
        ensure_component(built)
        own = self.home / ".prowess"
        own.mkdir(mode=0o700)
        (own / "sandbox").symlink_to(built / "sandbox")

    def use_colors(self, columns: int) -> None:
        """Run the next commands on a terminal with colors."""
        self.has_colors = True
        self.environment |= {"COLUMNS": str(columns), "TERM": "xterm-256color"}
        del self.environment["NO_COLOR"]

    def write(self, name: str, text: str) -> None:
        """Write a file."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run(self, line: str) -> str:
        """Run a command line and return what the terminal shows, with fixed ids and times."""
        for real, shown in self._ids.items():
            line = line.replace(shown, real)
        words = shlex.split(line)
        if words[0] == "cd":
            self.folder = (self.folder / Path(words[1].replace("~", str(self.home)))).resolve()
            return ""
        if self.has_colors or ASKS_A_PERSON.match(line):
            shown = self._run_typed(line)
        elif words[0] == "prowess" and not re.search(r"[|<>;]", re.sub(r"'[^']*'|\"[^\"]*\"", "", line)):
            shown = self._run_here(words)
        else:
            shown = self._run_shell(line)
        return self._fixed(shown)

    def _run_here(self, words: list[str]) -> str:
        """Run a command of Prowess in this process, which takes a tenth of the time."""
        before = os.environ.copy(), Path.cwd(), sys.argv, sys.stdin, sys.stdout, sys.stderr
        with tempfile.TemporaryFile("w+") as output, Path(os.devnull).open() as nothing, descriptors(output.fileno()):
            os.environ.clear()
            os.environ.update(self.environment)
            os.chdir(self.folder)
            sys.argv = [str(Path(sys.executable).parent / "prowess"), *words[1:]]
            sys.stdin, sys.stdout, sys.stderr = nothing, output, output
            try:
                with contextlib.suppress(SystemExit):
                    run()
            finally:
                os.environ.clear()
                os.environ.update(before[0])
                os.chdir(before[1])
                _, _, sys.argv, sys.stdin, sys.stdout, sys.stderr = before
            output.seek(0)
            return output.read()

    def _run_shell(self, line: str) -> str:
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.stdout

    def _run_typed(self, line: str) -> str:
        """Run a command on a real terminal, and answer each question with yes."""
        ours, theirs = pty.openpty()
        with subprocess.Popen(
            ["bash", "-c", line], cwd=self.folder, env=self.environment, stdin=theirs, stdout=theirs, stderr=theirs
        ):
            os.close(theirs)
            seen, answered = b"", 0
            with contextlib.suppress(OSError):  # the terminal is gone when the command ends
                while chunk := os.read(ours, 4096):
                    seen += chunk
                    if seen.endswith(b": ") and b"[" in seen[answered:]:
                        answered = len(seen)
                        os.write(ours, b"y\n")
        os.close(ours)
        return seen.decode().replace("\r\n", "\n")

    def _fixed(self, text: str) -> str:
        text = SPINNER.sub("", text)
        if not self.has_colors:
            text = re.sub(r"\x1b\[[0-9;]*m", "", text)
        text = ID.sub(self._fixed_id, text)
        for pattern, shown in TIMES:
            text = pattern.sub(shown, text)
        text = text.replace(str(self.home), "~").replace(str(ROOT), "~/prowess")
        return "".join(line.rstrip() + "\n" for line in text.splitlines())

    def _fixed_id(self, found: re.Match[str]) -> str:
        """Return an id that is the same in every session: the first is 1f2a9c4e, the second 2f2a9c4e."""
        shown = self._ids.setdefault(found[1], f"{len(self._ids) + 1:x}f2a9c4e")
        return shown + ("-5b1d-4e7a-9c3f-000000000000" if found[2] else "")


@contextlib.contextmanager
def descriptors(target: int) -> Iterator[None]:
    """Send the descriptors of stdout and stderr to another file, for programs that write to them directly."""
    saved = os.dup(1), os.dup(2)
    os.dup2(target, 1)
    os.dup2(target, 2)
    try:
        yield
    finally:
        for number, old in enumerate(saved, start=1):
            os.dup2(old, number)
            os.close(old)


def play(page: str, terminal: Terminal) -> str:
    """Return a page with the output of its commands as it is now."""
    matcher.IN_PLACE_SECONDS = 300.0  # on a loaded machine, too, matching waits for all vectors
    if "prowess run " in page:
        terminal.give_sandbox()

    def replay(part: re.Match[str]) -> str:
        if title := re.search(r'title="([^"]+)"', part["info"]):
            terminal.write(title[1], part["text"])
        if part["info"] != "console":
            return part[0]
        return f"```console\n{''.join(played(part['text'], terminal))}```"

    return PARTS.sub(replay, page)


def played(block: str, terminal: Terminal) -> Iterator[str]:
    """Yield the commands of a block, each with its output if the page shows one."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        line, _, shown = part.partition("\n")
        printed = terminal.run(line)
        yield f"$ {line}\n"
        if shown:
            yield shown if fits(shown, printed) else printed


def fits(shown: str, printed: str) -> bool:
    """Return True if what a page shows is what was printed. "…" stands for anything."""
    pattern = "".join(
        r"(.*\n)*?" if line.strip() == "…" else re.escape(line.rstrip()).replace("…", ".*") + r"\n"
        for line in shown.splitlines()
    )
    return re.fullmatch(pattern, printed) is not None


if __name__ == "__main__":
    for name in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            place = Path(name)
            place.write_text(play(place.read_text(), Terminal(Path(folder).resolve() / "home")))
