"""What an archive or a folder contains is what a person sees: no odd names, no links to files elsewhere, no circles."""

from __future__ import annotations

import io
import json
import os
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("mcp")

from mcp import Client

from prowess.interfaces.auth.caller import Caller
from prowess.interfaces.cli.main import run
from prowess.interfaces.mcp.server import make_security, make_server
from prowess.open import Prowess
from prowess.policy.actor import agent_of, local_person

SKILL = "---\nname: sly\ndescription: Notes.\n---\n\nRead.\n"
KEY = "-----BEGIN OPENSSH PRIVATE KEY-----"


@pytest.fixture
def workspace(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "workspace"
    (folder / ".agents" / "skills" / "sly" / "references").mkdir(parents=True)
    (folder / ".agents" / "skills" / "sly" / "SKILL.md").write_text(SKILL)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def references(workspace: Path) -> Path:
    return workspace / ".agents" / "skills" / "sly" / "references"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    file = tmp_path / "id_ed25519"
    file.write_text(KEY)
    return file


@pytest.fixture
def prowess(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str]]:
    def call(*args: str | Path) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["prowess", *map(str, args)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            run()
        captured = capfd.readouterr()
        return int(ended.value.code or 0), captured.out + captured.err

    return call


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_a_hard_link_to_a_file_outside_is_not_read(prowess, references, outside, mode):
    outside.chmod(mode)
    os.link(outside, references / "guide.md")
    assert "hard link" in prowess("validate", references.parent)[1]
    assert KEY not in prowess("load", "sly", "--reference", "guide.md")[1]
    assert prowess("list", "--json")[1].strip().startswith("[]")


@pytest.mark.anyio
async def test_no_agent_gets_a_hard_link_to_a_file_outside(workspace, references, outside):
    os.link(outside, references / "guide.md")
    person = local_person("ann")
    caller = Caller(actor=agent_of(person), person=person)
    async with Prowess.open(workspace) as engine:
        server = make_server(engine, caller, security=make_security([b"k" * 32], caller))
        async with Client(server, mode="auto") as client:
            answer = await client.call_tool("load_skill", {"name": "sly", "reference": "guide.md"})
            assert KEY not in json.dumps(answer.structured_content)
            assert answer.is_error


def test_links_among_the_files_of_a_skill_are_files(prowess, references):
    (references / "guide.md").write_text("Read this.\n")
    os.link(references / "guide.md", references / "copy.md")
    assert prowess("validate", references.parent)[0] == 0


@pytest.mark.parametrize(("mode", "accepted"), [(0o644, True), (0o600, False)])
def test_in_the_folder_of_a_package_manager_a_link_to_a_readable_file_is_accepted(
    prowess, workspace, outside, mode, accepted
):
    outside.write_text(SKILL)
    outside.chmod(mode)
    folder = workspace / "node_modules" / "tool" / "skills" / "sly"
    folder.mkdir(parents=True)
    os.link(outside, folder / "SKILL.md")
    assert (prowess("validate", folder)[0] == 0) == accepted


def pack_zip(names: dict[str, str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in names.items():
            archive.writestr(name, text)
    return out.getvalue()


def pack_tar(names: dict[str, str]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, text in names.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    return out.getvalue()


CIRCLE = json.dumps(
    {
        "slug": "sly",
        "name": "Sly",
        "description": "Notes.",
        "artifacts": [
            {"name": "a", "kind": "prompt_template", "content": "A", "metadata": {"fallback_artifact": "b"}},
            {"name": "b", "kind": "prompt_template", "content": "B", "metadata": {"fallback_artifact": "c"}},
            {"name": "c", "kind": "prompt_template", "content": "C", "metadata": {"fallback_artifact": "a"}},
        ],
    }
)
ARCHIVES = {
    "a NUL in a name": ("sly.zip", pack_zip({"SKILL.md": SKILL, "a.mdXexe": ""}).replace(b"a.mdXexe", b"a.md\0exe")),
    "a right-to-left mark": ("sly.zip", pack_zip({"SKILL.md": SKILL, "references/guide\u200f.md": "x"})),
    "a right-to-left override in a tar": ("sly.tgz", pack_tar({"SKILL.md": SKILL, "guide\u202edm.sh": "x"})),
    "a device": ("sly.zip", pack_zip({"SKILL.md": SKILL, "references/aux.txt": "x"})),
    "a zip that is called tar.gz": ("sly.tar.gz", pack_zip({"SKILL.md": SKILL})),
    "a tar.gz that is called zip": ("sly.zip", pack_tar({"SKILL.md": SKILL})),
    "a circle of fallbacks": ("sly.zip", pack_zip({"sly.json": CIRCLE})),
}


@pytest.mark.parametrize(("name", "data"), ARCHIVES.values(), ids=list(ARCHIVES))
def test_an_odd_archive_is_refused_with_a_reason(prowess, workspace, tmp_path, name, data):
    archive = tmp_path / name
    archive.write_bytes(data)
    for command in (["validate"], ["import"]):
        code, said = prowess(*command, archive)
        assert code != 0, said
        assert not {"\u200f", "\u202e", "\0"} & set(said)


def test_the_circle_of_fallbacks_is_named(prowess, workspace, tmp_path):
    (tmp_path / "sly.json").write_text(CIRCLE)
    assert "a → b → c → a" in prowess("validate", tmp_path / "sly.json")[1]
