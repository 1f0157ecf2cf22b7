"""The environment of the sidecar: made once from a locked file, whatever happens meanwhile."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from prowess.errors import ProwessError, Unavailable
from prowess.sidecar.environment import SidecarEnvironment
from prowess.sidecar.process import ProcessSidecar


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """A folder with the wheel of a package `tiny` that has one module."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    files = {
        "tiny.py": b"VALUE = 7\n",
        "tiny-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
        "tiny-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "tiny-1.0.dist-info/RECORD"
    lines = [f"{name},sha256={_digest(data)},{len(data)}" for name, data in files.items()]
    with zipfile.ZipFile(folder / "tiny-1.0-py3-none-any.whl", "w") as wheel:
        for name, data in files.items():
            wheel.writestr(name, data)
        wheel.writestr(record, "\n".join([*lines, f"{record},,"]) + "\n")
    return folder


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


@pytest.fixture
def locked(program: Path, wheels: Path) -> Path:
    """The program with a locked file that names the wheel."""
    digest = hashlib.sha256((wheels / "tiny-1.0-py3-none-any.whl").read_bytes()).hexdigest()
    (program / "requirements.txt").write_text(f"tiny==1.0 --hash=sha256:{digest}\n")
    return program


@pytest.fixture
def uv(wheels: Path) -> dict[str, str]:
    """The variables with which uv finds the wheel and no network."""
    return {"UV_FIND_LINKS": str(wheels), "UV_NO_INDEX": "1", "UV_OFFLINE": "1"}


def test_it_is_made_once_and_found_again(tmp_path: Path, locked: Path, uv) -> None:
    messages: list[str] = []
    environment = SidecarEnvironment(tmp_path / "home", environment=uv, program=locked)
    assert environment.find() is None
    made = environment.ensure(messages.append)
    assert environment.ensure(messages.append) == made == environment.find()
    assert len(messages) == 1
    python = made.argv[0]
    ran = subprocess.run([python, "-I", "-c", "import tiny; print(tiny.VALUE)"], capture_output=True, check=True)
    assert ran.stdout == b"7\n"
    assert [path.name for path in (tmp_path / "home/sidecar").iterdir()] == [environment.location.name]


def test_those_who_start_at_once_get_the_same_one(tmp_path: Path, locked: Path, uv) -> None:
    messages: list[str] = []

    def ensure(_: int) -> object:
        return SidecarEnvironment(tmp_path / "home", environment=uv, program=locked).ensure(messages.append)

    with ThreadPoolExecutor(3) as pool:
        first, *others = pool.map(ensure, range(3))
    assert all(other == first for other in others)
    assert len(messages) == 1


def test_what_a_killed_installation_left_is_removed(tmp_path: Path, locked: Path, uv) -> None:
    left = tmp_path / "home/sidecar/.building-1"
    left.mkdir(parents=True, mode=0o700)
    left.parent.chmod(0o700)
    SidecarEnvironment(tmp_path / "home", environment=uv, program=locked).ensure(lambda _: None)
    assert not left.exists()


def test_another_hash_or_a_missing_wheel_installs_nothing_and_runs_do_not_try_again_at_once(
    tmp_path: Path, locked: Path, uv
) -> None:
    lock = locked / "requirements.txt"
    good = lock.read_text()
    lock.write_text(f"tiny==1.0 --hash=sha256:{'0' * 64}\n")
    environment = SidecarEnvironment(tmp_path / "home", environment=uv, program=locked)
    with pytest.raises(Unavailable, match="Failed to install") as refused:
        environment.ensure(lambda _: None)
    assert environment.failure == refused.value.message
    assert environment.find() is None
    lock.write_text(good)
    with pytest.raises(Unavailable, match="not installed") as waiting:
        environment.ensure(lambda _: None)
    assert "prowess sidecar install" in waiting.value.hint
    assert environment.ensure(lambda _: None, again=True)
    assert environment.failure == ""


def test_without_uv_the_message_says_what_to_type(tmp_path: Path, locked: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "uv", None)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(Unavailable) as missing:
        SidecarEnvironment(tmp_path / "home", program=locked).ensure(lambda _: None)
    assert "pip install 'prowess[native]'" in missing.value.hint


def test_a_folder_that_others_can_write_to_is_refused(tmp_path: Path, locked: Path, uv) -> None:
    (tmp_path / "home/sidecar").mkdir(parents=True)
    os.chmod(tmp_path / "home/sidecar", 0o777)
    with pytest.raises(ProwessError, match="writable by other users"):
        SidecarEnvironment(tmp_path / "home", environment=uv, program=locked).ensure(lambda _: None)


def test_a_named_binary_starts_itself_and_a_named_python_the_program(tmp_path: Path, program: Path) -> None:
    binary = tmp_path / "prowess-dspy"
    binary.write_text("#!/bin/sh\n")
    binary.chmod(0o755)
    found = SidecarEnvironment(tmp_path, named=str(binary), program=program).find()
    assert found is not None
    assert (found.argv, found.starts_itself) == ((str(binary),), True)
    python = SidecarEnvironment(tmp_path, named=sys.executable, program=program).find()
    assert python is not None
    assert (python.argv[-1], python.starts_itself) == (str(program), False)


@pytest.mark.anyio
async def test_runs_without_a_program_do_not_count_as_crashes(tmp_path: Path, program: Path) -> None:
    sidecar = ProcessSidecar(SidecarEnvironment(tmp_path, named="off", program=program).find)
    for _ in range(6):
        with pytest.raises(Unavailable, match="switched off"):
            await sidecar.version()


@pytest.mark.parametrize(("named", "said"), [("off", "switched off"), ("/nowhere/sidecar", "not a program")])
def test_a_sidecar_that_is_off_or_missing_is_unavailable(tmp_path: Path, program: Path, named: str, said: str) -> None:
    with pytest.raises(Unavailable, match=said):
        SidecarEnvironment(tmp_path, named=named, program=program).ensure(lambda _: None)
