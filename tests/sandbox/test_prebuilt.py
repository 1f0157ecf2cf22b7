"""The interpreter that a package carries: unpacked instead of built, and in the wheel where it was packed."""

from __future__ import annotations

import lzma
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from prowess.errors import Unavailable
from prowess.sandbox.wasm import component
from prowess.sandbox.wasm.component import ensure_guest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a package carries in this test: nothing that was ever built."""
    folder = tmp_path / "prebuilt"
    folder.mkdir()
    monkeypatch.setattr(component, "PREBUILT", folder)
    path = folder / f"{component._guest_name()}.wasm.xz"
    path.write_bytes(lzma.compress(b"an interpreter"))
    return path


def test_what_the_package_carries_is_unpacked_and_not_built(packed, tmp_path):
    said: list[str] = []
    guest = ensure_guest(tmp_path / "new", said.append)
    assert (guest.read_bytes(), guest.name, said) == (b"an interpreter", packed.stem, [])
    assert [path.name for path in guest.parent.iterdir() if not path.name.startswith(".")] == [guest.name]


def test_what_is_there_already_is_not_unpacked_again(packed, tmp_path):
    first = ensure_guest(tmp_path / "new")
    packed.write_bytes(b"nonsense")
    assert ensure_guest(tmp_path / "new") == first


def test_what_is_damaged_is_told_and_nothing_is_left_of_it(packed, tmp_path):
    packed.write_bytes(packed.read_bytes()[:-20])
    with pytest.raises(Unavailable, match="damaged"):
        ensure_guest(tmp_path / "new")
    assert not list((tmp_path / "new" / "sandbox").glob("*.wasm"))


def test_one_that_was_made_of_another_program_is_not_taken(packed, tmp_path, monkeypatch):
    packed.rename(packed.with_name("guest-0123456789abcdef.wasm.xz"))
    monkeypatch.setattr(component, "COMPONENTIZE", "9.9.9")
    with pytest.raises(Unavailable, match="componentize-py"):
        ensure_guest(tmp_path / "new")


@pytest.mark.long
def test_a_wheel_carries_what_was_packed(tmp_path):
    source = tmp_path / "source"
    (source / "src").mkdir(parents=True)
    (source / "scripts").mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore", "scripts/build_web.py"):
        shutil.copyfile(ROOT / name, source / name)
    shutil.copytree(ROOT / "src" / "prowess", source / "src" / "prowess", ignore=shutil.ignore_patterns("__pycache__"))
    folder = source / "src" / "prowess" / "sandbox" / "wasm" / "prebuilt"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "guest-0123456789abcdef.wasm.xz").write_bytes(b"packed")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "prowess/sandbox/wasm/prebuilt/guest-0123456789abcdef.wasm.xz" in names
    assert "prowess/sandbox/guest/sandbox.wit" in names
    assert "prowess/skillkit.py" in names
