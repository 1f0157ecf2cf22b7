"""Run one write after another, each once for every step it takes on disk, killed just before that step.

Started as a program of its own, which forks; prints one JSON line for each kill: what was found afterwards.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from prowess.catalog.database_versions import DatabaseVersions
from prowess.catalog.directory_store import DirectoryStore
from prowess.skill.package import Package
from prowess.storage.database import open_database
from prowess.storage.files import atomic_write
from prowess.storage.files.atomic_write import recover_folder, write_file, write_folder
from prowess.storage.files.folder_lock import lock_folder

STEPS = ("fsync", "mkdir", "rename", "replace", "unlink", "rmdir", "open", "link", "chmod")
TRIAGE = "---\nname: Tidy\nslug: tidy\ndescription: Tidies.\n---\nOne file.\n"


def tidy(body: str) -> Package:
    text = f"---\nname: tidy\ndescription: Tidies.\n---\n{body}\n"
    return Package.of_texts("tidy", {"SKILL.md": text, "references/a.md": body, "b.md": body})


class Store:
    """A store in a folder, opened and closed as a process would."""

    def __init__(self, folder: Path) -> None:
        self.database = open_database(f"sqlite:///{folder}/agents.db")
        log = DatabaseVersions(self.database, scope="workspace")
        self.skills = DirectoryStore(folder / "skills", scope="workspace", versions=log)

    def digest(self) -> str | None:
        skill = self.skills.get_skill_by_name("tidy")
        return skill.digest if skill else None

    def close(self) -> None:
        self.database.close()


def nothing(folder: Path) -> None:
    (folder / "skills").mkdir()


def one_skill(folder: Path) -> None:
    store = Store(folder)
    store.skills.save(tidy("one"))
    store.close()


def one_file(folder: Path) -> None:
    (folder / "skills").mkdir()
    (folder / "skills" / "tidy.md").write_text(TRIAGE)


def save(folder: Path) -> None:
    store = Store(folder)
    store.skills.save(tidy("two"), expected=store.digest())
    store.close()


def delete(folder: Path) -> None:
    store = Store(folder)
    store.skills.delete_skill(store.skills.get_skill_by_name("tidy").id)
    store.close()


def export(folder: Path) -> None:
    write_folder(tidy("two"), folder / "skills" / "tidy", replace=True)


def export_file(folder: Path) -> None:
    write_file(folder / "skills" / "tidy.md", TRIAGE.replace("One", "Another").encode())


def export_another(folder: Path) -> None:
    """What a person may do next, who does not know that the last export was killed."""
    other = folder / "skills" / "other"
    write_folder(tidy("other"), other, replace=True)
    shutil.rmtree(other)


OPERATIONS: dict[str, tuple[Callable[[Path], None], Callable[[Path], None], bool]] = {
    "create": (nothing, save, True),
    "update": (one_skill, save, True),
    "update in two steps": (one_skill, save, False),
    "file to folder": (one_file, save, True),
    "delete": (one_skill, delete, True),
    "export": (one_skill, export, True),
    "export in two steps": (one_skill, export, False),
    "export a file": (one_file, export_file, True),
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
    """Whether the operation was killed; it is not once there are fewer steps than that."""
    child = os.fork()
    if child == 0:
        kill_before(step)
        operation(folder)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def state(folder: Path) -> dict[str, object]:
    store = Store(folder)
    try:
        skill = store.skills.get_skill_by_name("tidy")
        with lock_folder(folder / "skills"):
            recover_folder(folder / "skills")
        return {
            "digest": skill.digest if skill else None,
            "found": sorted(path.name for path in (folder / "skills").iterdir()),
            "faults": len(store.skills.faults()),
            "versions": [version.digest for version in store.skills.versions("tidy")],
        }
    finally:
        store.close()


def main() -> None:
    base = Path(sys.argv[1])
    for name, (prepare, operation, exchanging) in OPERATIONS.items():
        real = atomic_write.exchange
        if not exchanging:
            atomic_write.exchange = lambda *_: False
        prepared = base / name
        prepared.mkdir()
        prepare(prepared)
        before = state(prepared)
        step, killed = 0, True
        while killed:
            folder = shutil.copytree(prepared, base / f"{name} {step}")
            killed = run_killed(operation, folder, step)
            line: dict[str, object] = {"name": name, "step": step, "killed": killed, "before": before}
            if name.startswith("export"):
                export_another(folder)
                line["left"] = sorted(path.name for path in (folder / "skills").iterdir())
            line["after"] = state(folder)
            sys.stdout.write(json.dumps(line) + "\n")
            step += 1
        atomic_write.exchange = real


if __name__ == "__main__":
    main()
