"""What each run is given, as the records, the environment and the folders are at that moment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from prowess.engine.grants import GrantResolver
from prowess.policy.actor import Actor
from prowess.policy.configuration import EnvGrants, Policies
from prowess.run.call import Call
from prowess.skill.kinds import Artifact, CliCommand, Function
from prowess.skill.model import Skill

pytestmark = pytest.mark.anyio

DIGEST = "a" * 64


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    (folder / "notes").mkdir(parents=True)
    (folder / ".prowess").mkdir()
    (folder / ".agents" / "skills").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (folder / "out").symlink_to(tmp_path / "elsewhere")
    return folder


@pytest.fixture
def grants(desk: Any, workspace: Path, home: Path) -> GrantResolver:
    return GrantResolver(
        records=lambda: desk.database,
        has_records=lambda: True,
        environment={"KEY": "s3cret", "PATH": "/bin"},
        workspace=workspace,
        closed=[home / ".prowess"],
        hidden=[workspace / ".prowess"],
        skills=lambda: [workspace / ".agents" / "skills"],
    )


def call_of(actor: Actor, digest: str = DIGEST, artifact: Artifact | None = None, **needs: Any) -> Call:
    execute = artifact or Function(name="execute", content="def execute(args, ctx): ...")
    skill = Skill(slug="triage", title="T", description="d", digest=digest, artifacts=(execute,), extra=needs)
    return Call(id="1", skill=skill, artifact=execute, inputs={}, actor=actor)


async def test_what_is_allowed_while_it_is_open_holds_for_the_next_run(
    desk: Any, grants: GrantResolver, ann: Actor
) -> None:
    needs = {"env": ["KEY"], "hosts": ["api.example.com"]}
    assert (await grants.of(call_of(ann, **needs))).env == {}
    EnvGrants(desk.database).allow(ann, slug="triage", digest=DIGEST, asked=("KEY",), name="KEY")
    found = await grants.of(call_of(ann, **needs))
    assert (dict(found.env), found.hosts) == ({"KEY": "s3cret"}, ("api.example.com",))
    changed = await grants.of(call_of(ann, digest="b" * 64, **needs))
    assert changed.env == {}
    assert "has changed since" in changed.denied["KEY"]
    EnvGrants(desk.database).forbid(ann, slug="triage", name="KEY")
    assert (await grants.of(call_of(ann, **needs))).env == {}


async def test_another_organization_is_given_nothing_of_it(desk: Any, grants: GrantResolver, ann: Actor) -> None:
    EnvGrants(desk.database).allow(ann, slug="triage", digest=DIGEST, asked=("KEY",), name="KEY")
    other = Actor(name="ann", organization="other", user="ann")
    assert (await grants.of(call_of(other, env=["KEY"]))).env == {}


async def test_links_are_followed_before_a_folder_is_judged(
    desk: Any, grants: GrantResolver, ann: Actor, workspace: Path, tmp_path: Path
) -> None:
    found = await grants.of(call_of(ann, roots=["notes", "out", "rw:.agents/skills", "notes/../../elsewhere"]))
    assert [root.path for root in found.roots] == [(workspace / "notes").resolve()]
    assert sorted(found.denied) == [".agents/skills", "out"]
    Policies(desk.database).change(ann, "skill_roots", [str(tmp_path / "elsewhere")])
    found = await grants.of(call_of(ann, roots=["rw:out"]))
    assert [(root.name, root.path, root.writable) for root in found.roots] == [
        ("out", (tmp_path / "elsewhere").resolve(), True)
    ]


async def test_a_function_is_given_the_workspace_and_a_program_only_folders_in_it(
    grants: GrantResolver, ann: Actor
) -> None:
    roots = [".", ".prowess", "notes"]
    found = await grants.of(call_of(ann, roots=roots))
    assert [root.name for root in found.roots] == [".", "notes"]
    ran = await grants.of(call_of(ann, artifact=CliCommand(name="log", handler="git log"), roots=roots))
    assert [root.name for root in ran.roots] == ["notes"]
    assert sorted(ran.denied) == [".", ".prowess", "git"]


async def test_a_skill_that_asks_for_nothing_is_given_nothing_and_nothing_is_read(ann: Actor, tmp_path: Path) -> None:
    def never() -> Any:
        raise AssertionError

    grants = GrantResolver(records=never, has_records=never, environment={}, workspace=tmp_path, closed=())
    assert (await grants.of(call_of(ann))).denied == {}


async def test_without_records_only_what_needs_no_word_is_given(ann: Actor, workspace: Path, tmp_path: Path) -> None:
    def never() -> Any:
        raise AssertionError

    grants = GrantResolver(
        records=never, has_records=lambda: False, environment={"KEY": "v"}, workspace=workspace, closed=()
    )
    found = await grants.of(call_of(ann, env=["KEY"], roots=["notes"], binaries=["git"]))
    assert (found.env, len(found.roots), found.binaries) == ({}, 1, ())
    assert sorted(found.denied) == ["KEY", "git"]
