"""The sample plugins, really installed, and Prowess in a process that sees them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Ran:
    """What a command printed, and the code it ended with."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def install(folder: Path, *names: str) -> Path:
    """A folder with these packages installed in it, as `pip install` does; nothing is fetched."""
    sources = [str(shutil.copytree(HERE / name, folder / "sources" / name)) for name in names]
    target = folder / "installed"
    uv = [sys.executable, "-m", "uv", "pip", "install", "--offline", "--no-deps", "--no-build-isolation", "--quiet"]
    ran = subprocess.run(
        [*uv, "--python", sys.executable, "--cache-dir", str(folder / "cache"), "--target", str(target), *sources],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return target


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the sample plugin is installed, alone."""
    return install(tmp_path_factory.mktemp("sample"), "sample")


@pytest.fixture(scope="session")
def sample_and_broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the sample plugin is installed beside broken ones."""
    return install(tmp_path_factory.mktemp("both"), "sample", "broken")


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a plugin is installed that brings a store."""
    return install(tmp_path_factory.mktemp("shelf"), "shelf")


@pytest.fixture(scope="session")
def kitchen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a plugin is installed that runs artifacts of one kind, with a skill that has one."""
    return install(tmp_path_factory.mktemp("kitchen"), "kitchen")


@pytest.fixture(scope="session")
def acme(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a plugin is installed that brings one of everything."""
    return install(tmp_path_factory.mktemp("acme"), "acme")


@pytest.fixture(scope="session")
def flawed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a plugin is installed whose parts fail when they are used."""
    return install(tmp_path_factory.mktemp("flawed"), "flawed")


@pytest.fixture
def package(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that puts a package with one plugin into a folder, and returns the folder."""

    def write(
        code: str, *, entry_points: str = "[prowess.plugins]\nodd = odd_pack:plugin\n", metadata: str = ""
    ) -> Path:
        info = tmp_path / "packages" / "odd_pack-1.0.dist-info"
        info.mkdir(parents=True)
        (info.parent / "odd_pack.py").write_text(f"from prowess.plugins import Plugin, PluginTool\n{code}\n")
        (info / "entry_points.txt").write_text(entry_points)
        (info / "METADATA").write_text(metadata or "Metadata-Version: 2.1\nName: odd-pack\nVersion: 1.0\n")
        return info.parent

    return write


@pytest.fixture
def prowess(tmp_path: Path, new_process: Callable[..., Any]) -> Callable[..., Ran]:
    """Run a command in a process of its own, with the packages of a folder installed."""

    def call(installed: Path, *args: str) -> Ran:
        ran = new_process(*args, environment={**os.environ, "PYTHONPATH": str(installed)}, folder=tmp_path)
        return Ran(code=ran.returncode, out=ran.stdout, err=ran.stderr)

    return call
