"""Links between pages, and their history."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from prowess.errors import Unavailable
from prowess.workspace import workspace as history
from prowess.workspace.pages import find_links, resolve_path


def slugs(found):
    return [page["slug"] for page in found]


def test_links_in_both_spellings_lead_to_pages_and_back(write, workspace):
    write(
        "people/mara.md",
        "See [[Ivo]], [[ivo|her brother]], [[North Gate#History]] and [the wall](../places/the%20wall.md#top 'x').\n",
    )
    write("people/ivo.md", title="Ivo")
    write("places/gate.md", "[Mara](/people/mara.md)", title="North Gate")
    write("places/the wall.md", "[[mara]] again, and [[mara]].")
    told = workspace.get_references("mara")
    assert slugs(told["links"]) == ["people/ivo", "places/gate", "places/the wall"]
    assert slugs(told["backlinks"]) == ["places/gate", "places/the wall"]
    assert told["missing"] == []


def test_links_to_nothing_are_named_and_links_elsewhere_are_none(write, workspace):
    write(
        "a.md",
        "[[Nobody]] [out](../../etc/passwd.md) [web](https://example.org/x.md) [mail](mailto:a@b.md) [[a]] [up](#top)\n"
        "`[[Code]]` ![picture](x.png)\n```\n[[Fenced]]\n```\n[file](file.pdf) [ok](<b c.md>)\n",
    )
    write("b c.md")
    told = workspace.get_references("a")
    assert slugs(told["links"]) == ["b c"]
    assert told["missing"] == ["Nobody", "../../etc/passwd.md"]


@pytest.mark.parametrize(
    ("page", "target", "path"),
    [
        ("a/b.md", "c.md", "a/c.md"),
        ("a/b.md", "../c.md", "c.md"),
        ("a/b.md", "/c.md", "c.md"),
        ("a/b.md", "../../c.md", None),
        ("b.md", "x/../../c.md", None),
        ("b.md", "./c.md", "c.md"),
    ],
)
def test_a_path_is_seen_from_the_folder_of_its_page(page, target, path):
    assert resolve_path(page, target) == path


def test_many_links_and_hostile_text_are_read_in_bounds():
    assert len(find_links("".join(f"[[p{number}]]\n" for number in range(5_000)))) == 1_000
    for text in ("[" * 200_000, "[[" * 100_000, "[a](" * 50_000, "[[a|" * 50_000, "`" * 200_000 + "[[x]]"):
        assert len(find_links(text)) <= 1


def git(folder: Path, *arguments: str) -> None:
    known = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(folder), "PATH": "/usr/bin:/bin"}
    who = ("-c", "user.name=Ann Öst", "-c", "user.email=ann@example.org", "-c", "commit.gpgSign=false")
    subprocess.run(["git", *who, *arguments], cwd=folder, env=known, check=True, capture_output=True)


@pytest.fixture
def repository(folder, write):
    git(folder, "init", "-q", ".")
    for number in (1, 2, 3):
        write("people/mara.md", f"{number}")
        write("other.md", f"{number}")
        git(folder, "add", "people" if number != 2 else "other.md")
        git(folder, "commit", "-q", "-m", f"change {number}\n\nbody")
    return folder


def test_the_history_of_a_page_is_that_of_its_file(repository, workspace):
    told = workspace.get_history("mara")
    assert [(one["subject"], one["author"]) for one in told] == [("change 3", "Ann Öst"), ("change 1", "Ann Öst")]
    assert all(len(one["commit"]) == 40 and one["at"][:2] == "20" for one in told)
    assert [one["subject"] for one in workspace.get_history("mara", limit=1)] == ["change 3"]


def test_a_page_outside_any_repository_or_commit_has_no_history(write, workspace, repository, monkeypatch):
    write("new.md")
    assert workspace.get_history("new") == []
    monkeypatch.setattr(history.shutil, "which", lambda _: None)
    assert workspace.get_history("mara") == []


def test_without_a_repository_there_is_no_history(write, workspace, folder, monkeypatch):
    monkeypatch.setitem(history._GIT_ENVIRONMENT, "GIT_CEILING_DIRECTORIES", str(folder.parent))
    write("a.md")
    assert workspace.get_history("a") == []


def test_nothing_that_the_repository_names_is_run(repository, workspace, tmp_path):
    canary = tmp_path / "canary"
    script = tmp_path / "run.sh"
    script.write_text(f"#!/bin/sh\ntouch {canary}\ncat\n")
    script.chmod(0o755)
    for name, value in {
        "core.fsmonitor": script,
        "core.pager": script,
        "pager.log": script,
        "core.sshCommand": script,
        "core.editor": script,
        "core.hooksPath": tmp_path,
        "gpg.program": script,
        "log.showSignature": "true",
        "diff.external": script,
        "diff.x.textconv": script,
        "diff.x.command": script,
        "alias.log": f"!{script}",
        "filter.x.clean": script,
        "remote.origin.url": f"ext::{script}",
        "remote.origin.promisor": "true",
        "protocol.ext.allow": "always",
        "extensions.partialClone": "origin",
        "core.repositoryFormatVersion": "1",
        "log.diffMerges": "on",
        "log.follow": "true",
        "i18n.logOutputEncoding": "UTF-16",
    }.items():
        git(repository, "config", name, str(value))
    (repository / ".gitattributes").write_text("*.md diff=x filter=x\n")
    objects = [path for path in (repository / ".git/objects").rglob("*") if path.is_file()]
    assert [one["subject"] for one in workspace.get_history("mara")] == ["change 3", "change 1"]
    for path in objects:
        path.unlink()
    workspace.get_history("mara")
    assert not canary.exists()


def test_a_name_that_looks_like_an_option_or_a_pattern_is_a_name(repository, workspace, write):
    for name in ("--output=x.md", ":(top)a.md", "*.md"):
        write(name)
        git(repository, "--literal-pathspecs", "add", "--", name)
        git(repository, "commit", "-q", "-m", f"add {name}")
    for name in ("--output=x.md", ":(top)a.md", "*.md"):
        assert [one["subject"] for one in workspace.get_history(name)] == [f"add {name}"]
    assert not (repository / "x.md").exists()


def test_git_that_takes_too_long_is_told(repository, workspace, monkeypatch):
    monkeypatch.setattr(history, "GIT_SECONDS", 0.0)
    with pytest.raises(Unavailable, match="longer than"):
        workspace.get_history("mara")
