"""What a run is given of what its skill asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from prowess.policy.grants import GrantContext, Grants, resolve_grants
from prowess.policy.organization import OrgPolicy
from prowess.sandbox.roots import Root
from prowess.skill.needs import Needs

DIGEST, OTHER = "a" * 64, "b" * 64
WORK = Path("/space")
FOLDERS = {
    "/space": "/space",
    "/space/notes": "/space/notes",
    "/space/.git": "/space/.git",
    "/space/link-hidden": "/space/.git",
    "/space/notes/.cache/deep": "/space/notes/.cache/deep",
    "/space/notes/Keychains": "/space/notes/Keychains",
    "/space/.prowess": "/space/.prowess",
    "/space/.prowess/in": "/space/.prowess/in",
    "/space/kept": "/space/kept",
    "/space/kept/beside": "/space/kept/beside",
    "/space/skills": "/space/skills",
    "/space/skills/mine": "/space/skills/mine",
    "/space/link-out": "/etc",
    "/space/link-in": "/space/notes",
    "/etc": "/etc",
    "/srv/data": "/srv/data",
    "/srv/data/in": "/srv/data/in",
    "/srv/link": "/home/me",
    "/home/me": "/home/me",
    "/home/me/.prowess": "/home/me/.prowess",
}


def find(path: Path) -> Path | None:
    found = FOLDERS.get(str(path))
    return Path(found) if found else None


def given(needs: Needs, *, environment: dict[str, str] | None = None, program: bool = False, **settings: Any) -> Grants:
    around = GrantContext(
        environment=environment or {},
        workspace=WORK,
        find=find,
        closed=(Path("/home/me/.prowess"),),
        hidden=(Path("/space/.prowess"),),
        skills=(Path("/space/skills"),),
    )
    return resolve_grants(needs, OrgPolicy.of(settings), around, slug="triage", digest=DIGEST, program=program)


# --- the environment


def test_a_name_is_given_where_it_is_declared_and_allowed_for_exactly_these_bytes() -> None:
    settings = {"skill_env": {"triage": {"KEY": [OTHER, DIGEST], "UNASKED": [DIGEST]}}}
    found = given(Needs(env=("KEY",)), environment={"KEY": "s3cret", "UNASKED": "x", "PATH": "/bin"}, **settings)
    assert dict(found.env) == {"KEY": "s3cret"}
    assert found.denied == {}


@pytest.mark.parametrize(
    ("grants", "environment", "why"),
    [
        ({}, {"KEY": "s3cret"}, "'triage' may not read KEY"),
        ({"other": {"KEY": [DIGEST]}}, {"KEY": "s3cret"}, "may not read KEY"),
        ({"triage": {"KEY": [OTHER]}}, {"KEY": "s3cret"}, "'triage' has changed since"),
        ({"triage": {"KEY": []}}, {"KEY": "s3cret"}, "'triage' has changed since"),
        ({"triage": {"KEY": [DIGEST]}}, {}, "KEY is not set in the environment"),
        ({"triage": "KEY"}, {"KEY": "s3cret"}, "may not read KEY"),
    ],
)
def test_otherwise_it_is_not_and_it_is_said_why(grants: Any, environment: dict[str, str], why: str) -> None:
    found = given(Needs(env=("KEY",)), environment=environment, skill_env=grants)
    assert found.env == {}
    assert why in found.denied["KEY"]
    assert "s3cret" not in repr(found)


@pytest.mark.parametrize("name", ["PROWESS_MODEL_KEY", "PROWESS_DATABASE_URL", "prowess_x"])
def test_no_skill_reads_the_settings_of_prowess(name: str) -> None:
    found = given(Needs(env=(name,)), environment={name: "v"}, skill_env={"triage": {name: [DIGEST]}})
    assert found.env == {}
    assert "is a Prowess setting" in found.denied[name]


def test_values_are_in_no_representation() -> None:
    found = given(Needs(env=("KEY",)), environment={"KEY": "s3cret"}, skill_env={"triage": {"KEY": [DIGEST]}})
    assert "s3cret" not in repr(found)


# --- hosts


def test_hosts_are_given_as_declared_and_routes_only_for_them() -> None:
    routes = {
        "api.example.com": "http://127.0.0.1:1",
        "deep.in.example.org": "http://127.0.0.1:2",
        "example.org": "http://127.0.0.1:3",
        "other.example": "http://127.0.0.1:4",
    }
    found = given(Needs(hosts=("api.example.com:8443", "*.example.org")), host_routes=routes)
    assert found.hosts == ("api.example.com:8443", "*.example.org")
    assert set(found.routes) == {"api.example.com", "deep.in.example.org"}


# --- folders


@pytest.mark.parametrize(
    ("said", "root"),
    [
        ("notes", Root(name="notes", path=WORK / "notes")),
        ("rw:notes", Root(name="notes", path=WORK / "notes", writable=True)),
        ("rw:link-in", Root(name="link-in", path=WORK / "notes", writable=True)),
        ("/space/notes", Root(name="/space/notes", path=WORK / "notes")),
        (".", Root(name=".", path=WORK)),
        ("skills/mine", Root(name="skills/mine", path=WORK / "skills" / "mine")),
        ("rw:/srv/data", Root(name="/srv/data", path=Path("/srv/data"), writable=True)),
        ("/srv/data/in", Root(name="/srv/data/in", path=Path("/srv/data/in"))),
    ],
)
def test_a_folder_of_the_workspace_or_an_allowed_one_is_given(said: str, root: Root) -> None:
    assert given(Needs(roots=(said,)), skill_roots=["/srv/data"]).roots == (root,)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("missing", "Folder 'missing' not found"),
        ("/etc", "not in the workspace"),
        ("link-out", "not in the workspace"),
        ("rw:.", "the whole workspace"),
        (".git", "hidden or a credential store"),
        ("rw:.git", "hidden or a credential store"),
        ("link-hidden", "hidden or a credential store"),
        ("notes/.cache/deep", "hidden or a credential store"),
        ("notes/Keychains", "hidden or a credential store"),
        ("rw:skills", "it contains skills"),
        ("rw:skills/mine", "it contains skills"),
        ("/home/me", "Prowess's own data"),
        ("/home/me/.prowess", "Prowess's own data"),
        ("/srv/link", "Prowess's own data"),
        (".prowess", "Prowess's own data"),
        (".prowess/in", "Prowess's own data"),
    ],
)
def test_any_other_folder_is_not_and_it_is_said_why(said: str, why: str) -> None:
    found = given(Needs(roots=(said,)), skill_roots=["/srv/data", "/home/me"])
    assert found.roots == ()
    assert why in found.denied[said.removeprefix("rw:")]


def test_an_administrator_allows_a_hidden_folder_by_naming_it_and_only_for_reading() -> None:
    assert given(Needs(roots=(".git",)), skill_roots=["/space"]).roots == ()
    assert given(Needs(roots=(".git",)), skill_roots=["/space/.git"]).roots == (Root(name=".git", path=WORK / ".git"),)
    written = given(Needs(roots=("rw:.git",)), skill_roots=["/space/.git"])
    assert (written.roots, "tools run files from hidden folders" in written.denied[".git"]) == ((), True)


@pytest.mark.parametrize("home", ["/space", "/space/home/me"])
def test_a_workspace_that_holds_the_home_folder_is_not_given_as_a_whole(home: str) -> None:
    around = GrantContext(environment={}, workspace=WORK, find=find, homes=(Path(home),))
    found = resolve_grants(Needs(roots=(".", "notes")), OrgPolicy(), around, slug="triage", digest=DIGEST)
    assert [root.name for root in found.roots] == ["notes"]
    assert "List the folders that the skill needs" in found.denied["."]


@pytest.mark.parametrize("name", ["Library", "AppData"])
def test_what_systems_keep_in_the_home_folder_is_not_given(name: str) -> None:
    around = GrantContext(environment={}, workspace=WORK, find=lambda path: path, homes=(WORK,))
    found = resolve_grants(Needs(roots=(name, f"{name}/x")), OrgPolicy(), around, slug="triage", digest=DIGEST)
    assert (found.roots, sorted(found.denied)) == ((), [name, f"{name}/x"])


@pytest.mark.parametrize("workspace", ["/home/me/.ssh", "/home/me/.config/gh/x", "/home/me/.git/y"])
def test_a_credential_store_is_not_given_because_somebody_works_in_it(workspace: str) -> None:
    around = GrantContext(environment={}, workspace=Path(workspace), find=lambda path: path)
    found = resolve_grants(Needs(roots=(".",)), OrgPolicy(), around, slug="triage", digest=DIGEST)
    assert "credential store" in found.denied["."]


def test_a_workspace_below_a_hidden_folder_gives_its_visible_folders() -> None:
    around = GrantContext(environment={}, workspace=Path("/p/.claude/worktrees/a"), find=lambda path: path)
    found = resolve_grants(Needs(roots=("notes",)), OrgPolicy(), around, slug="triage", digest=DIGEST)
    assert [root.name for root in found.roots] == ["notes"]


@pytest.mark.parametrize(("said", "given_paths"), [("kept", []), (".", []), ("kept/beside", ["/space/kept/beside"])])
def test_no_folder_is_given_that_a_database_lies_in(said: str, given_paths: list[str]) -> None:
    around = GrantContext(environment={}, workspace=WORK, find=find, closed=(WORK / "kept" / "agents.db",))
    found = resolve_grants(Needs(roots=(said,)), OrgPolicy(), around, slug="triage", digest=DIGEST)
    assert [str(root.path) for root in found.roots] == given_paths


@pytest.mark.parametrize("said", [".", "/space"])
def test_a_program_is_not_given_the_whole_workspace_since_nobody_stands_between_it_and_hidden_files(said: str) -> None:
    found = given(Needs(roots=(said, "notes")), program=True)
    assert [root.name for root in found.roots] == ["notes"]
    assert "List folders in it" in found.denied[said]


# --- programs


def test_a_program_is_given_where_it_is_declared_and_an_administrator_allows_it() -> None:
    found = given(Needs(binaries=("git", "jq")), allowed_binaries=["git", "curl"])
    assert found.binaries == ("git",)
    assert """allowed_binaries '["git", "curl", "jq"]'""" in found.denied["jq"]
