"""Install, update and remove a skill, each once for every step it takes on disk, killed just before that step.

Started as a program of its own, which forks; prints one JSON line for each kill: what was found afterwards.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from prowess.skill.package import Package
from prowess.sources.install import Base
from prowess.sources.installation import Installation
from prowess.sources.installed import NewSkill
from prowess.sources.lock.folder_hash import hash_package
from prowess.sources.lock.prowess_lock import Pin
from prowess.sources.lock.skills_lock import locked_source
from prowess.storage.files import atomic_write

STEPS = ("fsync", "mkdir", "rename", "replace", "unlink", "rmdir", "open", "symlink", "chmod")
_TIME = re.compile(r"20\d\d-\d\d-\d\dT[\d:.]+Z")


def make(text: str, agents: tuple[str, ...], mode: Any, name: str = "pdf", *, user: bool = False) -> NewSkill:
    document = f"---\nname: {name}\ndescription: Reads.\n---\n{text}\n"
    package = Package.of_texts(name, {"SKILL.md": document, "references/a.md": text})
    pin = Pin(source="a/b", type="github", url="https://github.com/a/b.git", path=name, commit=text * 8)
    computed = hash_package(package)
    source = locked_source(pin, computed, user=user)
    return NewSkill(
        name=name, package=package, pin=pin, locked=source, computed_hash=computed, agents=agents, mode=mode
    )


def open_base(folder: Path) -> Installation:
    return Installation(Base(root=folder, environment={}, is_user="user" in folder.name))


def nothing(folder: Path) -> None:
    (folder / ".claude").mkdir()


def installed(folder: Path) -> None:
    nothing(folder)
    open_base(folder).install([make("one", ("universal", "claude-code"), "symlink")])


def install(folder: Path) -> None:
    agents = ("universal", "claude-code", "roo")
    open_base(folder).install([make("two", agents, "symlink", user="user" in folder.name)])


def copy(folder: Path) -> None:
    open_base(folder).install([make("two", ("universal", "claude-code"), "copy")])


def remove(folder: Path) -> None:
    open_base(folder).remove(["pdf"])


OPERATIONS: dict[str, tuple[Callable[[Path], None], Callable[[Path], None], bool]] = {
    "install": (nothing, install, True),
    "install for a user": (nothing, install, True),
    "update": (installed, install, True),
    "update in two steps": (installed, install, False),
    "links to copies": (installed, copy, True),
    "remove": (installed, remove, True),
}


def kill_before(step: int) -> None:
    """Let this process die just before its `step`-th change on disk."""
    left = [step]
    opening = os.open

    def guarded(call: Callable[..., object]) -> Callable[..., object]:
        def run(*args: Any, **kwargs: Any) -> object:
            if call is opening and not args[1] & (os.O_CREAT | os.O_WRONLY | os.O_RDWR):
                return call(*args, **kwargs)
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
            return call(*args, **kwargs)

        return run

    for name in STEPS:
        setattr(os, name, guarded(getattr(os, name)))
    atomic_write.exchange = guarded(atomic_write.exchange)


def run_killed(operation: Callable[[Path], None], folder: Path, step: int) -> bool:
    """Return True if the operation was killed; it is not once there are fewer steps than that."""
    child = os.fork()
    if child == 0:
        kill_before(step)
        operation(folder)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def go_on(folder: Path) -> None:
    """Do what a person may do next, who does not know that a command was killed."""
    installation = open_base(folder)
    installation.install([make("x", ("universal",), "symlink", "other")])
    installation.remove(["other"])


def state(folder: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        kind = f"-> {os.readlink(path)}" if path.is_symlink() else "" if path.is_dir() else path.read_text()
        found[str(path.relative_to(folder))] = _TIME.sub("TIME", kind)
    return found


def main() -> None:
    base = Path(sys.argv[1])
    for name, (prepare, operation, exchanging) in OPERATIONS.items():
        real = atomic_write.exchange
        if not exchanging:
            atomic_write.exchange = lambda *_: False
        prepared = base / name
        prepared.mkdir()
        prepare(prepared)
        done = shutil.copytree(prepared, base / f"{name} done", symlinks=True)
        operation(done)
        step, killed = 0, True
        while killed:
            folder = shutil.copytree(prepared, base / f"{name} {step}", symlinks=True)
            killed = run_killed(operation, folder, step)
            go_on(folder)
            line = {"name": name, "step": step, "before": state(prepared), "done": state(done), "after": state(folder)}
            sys.stdout.write(json.dumps(line) + "\n")
            shutil.rmtree(folder)
            step += 1
        atomic_write.exchange = real


if __name__ == "__main__":
    main()
