"""The interpreter of the sandbox: built once, kept privately, and only with the packages that it knows."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from prowess.errors import Refused, Unavailable
from prowess.sandbox.wasm import component
from prowess.sandbox.wasm.component import check_package, ensure_component


@pytest.fixture
def own_home(sandbox_home: Path, tmp_path: Path) -> Path:
    """A home of one test's own that has the interpreter already."""
    folder = tmp_path / "own" / "sandbox"
    folder.mkdir(parents=True, mode=0o700)
    for path in (sandbox_home / "sandbox").iterdir():
        (folder / path.name).symlink_to(path)
    return folder.parent


def test_what_has_been_built_is_not_built_again(own_home):
    before = sorted((own_home / "sandbox").iterdir())
    said: list[str] = []
    assert ensure_component(own_home, said.append) in before
    assert (sorted((own_home / "sandbox").iterdir()), said) == (before, [])


def test_a_package_that_is_missing_is_named_with_what_installs_it():
    with pytest.raises(Unavailable) as caught:
        check_package("wasmtime-of-nobody", "1.0")
    assert caught.value.hint == "Run `pip install 'prowess[sandbox]'`."


def test_another_version_of_a_package_is_not_used():
    with pytest.raises(Unavailable, match=r"9\.9\.9"):
        check_package("wasmtime", "9.9.9")


def test_what_is_installed_is_what_is_known():
    check_package("wasmtime", component.WASMTIME)
    check_package("componentize-py", component.COMPONENTIZE)


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_folder_that_others_can_write_to_is_refused(own_home, mode):
    (own_home / "sandbox").chmod(mode)
    with pytest.raises(Refused):
        ensure_component(own_home)


def test_a_program_that_cannot_be_built_says_why_and_leaves_nothing(own_home, tmp_path, monkeypatch):
    guest = tmp_path / "guest"
    guest.mkdir()
    (guest / "runner.py").write_text("this is no program")
    (guest / "sandbox.wit").write_text("nor this")
    monkeypatch.setattr(component, "_GUEST", guest)
    before = sorted((own_home / "sandbox").iterdir())
    (own_home / "sandbox" / ".building-killed").mkdir()
    with pytest.raises(Unavailable, match="Building the sandbox failed"):
        ensure_component(own_home)
    assert sorted((own_home / "sandbox").iterdir()) == before


BUILD = "import sys; from pathlib import Path; from prowess.sandbox.wasm import component; print(component.{name}(Path(sys.argv[1]), print))"
EMPTY_COMPONENT = b"\0asm\x0d\0\x01\0"


def build_twice_at_once(folder: Path, name: str) -> list[str]:
    """Call a function of `component` in two processes at once; what each of them printed."""
    program = BUILD.format(name=name)
    builders = [
        subprocess.Popen([sys.executable, "-c", program, str(folder)], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    return [builder.communicate()[0] for builder in builders]


@pytest.mark.long
def test_two_processes_that_build_at_once_build_once(tmp_path):
    folder = tmp_path / "new"
    said = build_twice_at_once(folder, "ensure_guest")
    assert sum(text.count("Building") for text in said) == 1
    assert said[0].splitlines()[-1] == said[1].splitlines()[-1]
    assert [path.suffix for path in (folder / "sandbox").iterdir()] == [".wasm"]
    shutil.rmtree(folder)


@pytest.mark.long
def test_two_processes_that_compile_at_once_compile_once(tmp_path):
    # What is compiled is the smallest component: the interpreter takes as long to compile as to build.
    guest = tmp_path / "new" / "sandbox" / f"{component._guest_name()}.wasm"
    guest.parent.mkdir(parents=True, mode=0o700)
    guest.write_bytes(EMPTY_COMPONENT)
    said = build_twice_at_once(tmp_path / "new", "ensure_component")
    assert sum(text.count("Compiling") for text in said) == 1
    assert said[0].splitlines()[-1] == said[1].splitlines()[-1]
    assert sorted(path.suffix for path in guest.parent.iterdir()) == [".cwasm", ".wasm"]
