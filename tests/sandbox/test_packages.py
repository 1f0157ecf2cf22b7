"""Packages for native functions: wheels only, kept by what was asked for, and nothing of them is run."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import zipfile
from pathlib import Path

import pytest

from prowess.errors import Invalid, Refused, Unavailable
from prowess.sandbox.process.packages import ensure_packages
from prowess.sandbox.script import script_from_function


def wheel(
    folder: Path, name: str, version: str = "1.0", requires: str = "", files: dict[str, str] | None = None
) -> None:
    """A tiny package."""
    folder.mkdir(exist_ok=True)
    info = f"{name}-{version}.dist-info"
    told = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    told += f"Requires-Dist: {requires}\n" if requires else ""
    content = {
        f"{name}/__init__.py": f"VERSION = {version!r}\n",
        **(files or {}),
        f"{info}/METADATA": told,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as made:
        for path, text in content.items():
            made.writestr(path, text)
        made.writestr(f"{info}/RECORD", "".join(f"{path},,\n" for path in [*content, f"{info}/RECORD"]))


@pytest.fixture
def index(tmp_path: Path) -> Path:
    folder = tmp_path / "wheels"
    wheel(folder, "apple", requires="pear>=1")
    wheel(folder, "pear")
    wheel(folder, "pear", version="2.0")
    return folder


@pytest.fixture
def environment(index: Path) -> dict[str, str]:
    return {"UV_FIND_LINKS": str(index), "UV_OFFLINE": "1"}


def test_packages_come_with_all_that_they_require(tmp_path, environment):
    found = ensure_packages(tmp_path / "home", ["apple"], environment)
    assert (found / "apple" / "__init__.py").is_file()
    assert "2.0" in (found / "pear" / "__init__.py").read_text()


def test_a_native_function_imports_them(tmp_path, environment, native):
    found = ensure_packages(tmp_path / "home", ["apple", "pear<2"], environment)
    code = "import apple, pear\ndef execute(args, ctx):\n    return [apple.VERSION, pear.VERSION]\n"
    ran = asyncio.run(native.run(script_from_function(code, {}, packages=found), {}))
    assert (ran.ended, ran.result) == ("done", ["1.0", "1.0"])


def test_versions_are_as_asked_for(tmp_path, environment):
    found = ensure_packages(tmp_path / "home", ["apple == 1.0", "pear<2"], environment)
    assert "1.0" in (found / "pear" / "__init__.py").read_text()


def test_the_same_packages_are_had_once_whatever_their_order(tmp_path, environment, index):
    first = ensure_packages(tmp_path / "home", ["apple", "pear"], environment)
    for file in index.iterdir():
        file.unlink()
    assert ensure_packages(tmp_path / "home", ["pear", "apple", "pear"], environment) == first


def test_those_who_ask_at_once_get_the_same_folder(tmp_path, environment):
    found: list[Path] = []
    asking = [
        threading.Thread(target=lambda: found.append(ensure_packages(tmp_path / "home", ["apple"], environment)))
        for _ in range(3)
    ]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    assert len(found) == 3
    assert len(set(found)) == 1


def test_a_missing_package_is_named_and_nothing_is_left(tmp_path, environment):
    with pytest.raises(Unavailable, match="durian") as caught:
        ensure_packages(tmp_path / "home", ["pear", "durian"], environment)
    assert "from wheels: durian." in caught.value.message
    left = [path.name for path in (tmp_path / "home" / "packages").iterdir()]
    assert left in ([], [".cache"])


def test_a_package_without_a_wheel_is_not_built(tmp_path, environment, index):
    import io
    import tarfile

    marker = tmp_path / "ran"
    with tarfile.open(index / "fig-1.0.tar.gz", "w:gz") as made:
        for name, text in {
            "fig-1.0/setup.py": f"open({str(marker)!r}, 'w')\nfrom setuptools import setup\nsetup(name='fig', version='1.0')\n",
            "fig-1.0/PKG-INFO": "Metadata-Version: 2.1\nName: fig\nVersion: 1.0\n",
        }.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            made.addfile(entry, io.BytesIO(text.encode()))
    with pytest.raises(Unavailable, match="fig"):
        ensure_packages(tmp_path / "home", ["fig"], environment)
    assert not marker.exists()


def test_what_would_run_by_itself_is_left_out(tmp_path, environment, index):
    marker = tmp_path / "ran"
    hostile = f"import pathlib; pathlib.Path({str(marker)!r}).touch()\n"
    files = {
        "grape.pth": hostile,
        "sitecustomize.py": hostile,
        "usercustomize.py": hostile,
        "grape-1.0.data/scripts/grape-run": f"#!python\n{hostile}",
        "grape-1.0.dist-info/entry_points.txt": "[console_scripts]\ngrape = grape:main\n",
    }
    wheel(index, "grape", files=files)
    found = ensure_packages(tmp_path / "home", ["grape"], environment)
    assert not marker.exists()
    assert not list(found.glob("*.pth"))
    assert not (found / "bin").exists()


def test_files_of_a_wheel_stay_within_its_folder(tmp_path, environment, index):
    wheel(index, "lemon", files={"../../outside.py": "", "lemon-1.0.data/data/../../../outside.py": ""})
    with contextlib.suppress(Unavailable):
        ensure_packages(tmp_path / "home", ["lemon"], environment)
    kept = [path for path in (tmp_path / "home").rglob("outside.py") if ".cache" not in path.parts]
    assert all(path.parent.parent.name == "packages" for path in kept)
    assert not (tmp_path / "outside.py").exists()


@pytest.mark.parametrize(
    "requirement",
    [
        "",
        "-r /etc/passwd",
        "--index-url=https://evil.example",
        "apple --index-url https://evil.example",
        "./apple-1.0-py3-none-any.whl",
        "/tmp/apple",
        "apple @ file:///tmp/apple.whl",
        "apple@https://evil.example/apple.whl",
        "git+https://evil.example/apple",
        "https://evil.example/apple.whl",
        "apple==1.0 pear",
        "apple>=",
        "${HOME}",
        "apple; rm -rf\nx @ file:///",
        "apple; python_version > '3' @ https://evil.example",  # what no manifest may say either
    ],
)
def test_only_names_with_versions_are_requirements(tmp_path, environment, requirement):
    with pytest.raises(Invalid):
        ensure_packages(tmp_path / "home", [requirement], environment)


def test_what_is_not_about_packages_is_not_told(tmp_path, environment):
    found = ensure_packages(
        tmp_path / "home", ["pear"], {**environment, "PYTHONSTARTUP": "/x", "OPENAI_API_KEY": "sk-1"}
    )
    assert found.is_dir()


def test_passwords_of_an_index_are_not_told(tmp_path):
    environment = {"UV_DEFAULT_INDEX": "http://someone:hunter2@127.0.0.1:9/simple", "UV_HTTP_RETRIES": "0"}
    with pytest.raises(Unavailable) as caught:
        ensure_packages(tmp_path / "home", ["pear"], environment)
    assert "hunter2" not in caught.value.message
    assert "pear" in caught.value.message


def test_a_folder_that_others_can_write_to_is_refused(tmp_path, environment):
    folder = tmp_path / "home" / "packages"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    with pytest.raises(Refused, match="writable by other users"):
        ensure_packages(tmp_path / "home", ["pear"], environment)


def test_without_uv_the_error_says_how_to_install_it(tmp_path, environment, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "uv", None)
    with pytest.raises(Unavailable) as caught:
        ensure_packages(tmp_path / "home", ["pear"], environment)
    assert "prowess[native]" in caught.value.hint
