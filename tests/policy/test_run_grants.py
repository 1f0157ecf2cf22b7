"""What each run is given, as the records, the environment and the folders are at that moment."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from prowess.handlers.requirements import look_up_grants
from prowess.policy.actor import Actor
from prowess.policy.configuration import Policies, read_policy
from prowess.policy.grants import EnvGrants, GrantResolver, Grants
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
def granted(desk: Any, workspace: Path, home: Path, new_call: Callable[..., Call]) -> Callable[..., Awaitable[Grants]]:
    """What a run of an actor is granted that begins now."""
    resolver = GrantResolver(
        environment={"KEY": "s3cret", "PATH": "/bin"},
        workspace=workspace,
        closed=[home / ".prowess"],
        hidden=[workspace / ".prowess"],
        skills=lambda: [workspace / ".agents" / "skills"],
    )

    def find(actor: Actor, digest: str = DIGEST, artifact: Artifact = EXECUTE, **needs: Any) -> Awaitable[Grants]:
        with desk.database.read() as connection:
            policy = read_policy(connection, actor.organization)
        return look_up_grants(resolver)(new_call(skill(digest, artifact, needs), artifact, actor=actor, policy=policy))

    return find


EXECUTE = Function(name="execute", content="def execute(args, ctx): ...")


def skill(digest: str, artifact: Artifact, needs: dict[str, Any]) -> Skill:
    return Skill(slug="triage", title="T", description="d", digest=digest, artifacts=(artifact,), extra=needs)


async def test_what_is_allowed_while_it_is_open_holds_for_the_next_run(desk: Any, granted: Any, ann: Actor) -> None:
    needs = {"env": ["KEY"], "hosts": ["api.example.com"]}
    assert (await granted(ann, **needs)).env == {}
    EnvGrants(desk.database).allow(ann, slug="triage", digest=DIGEST, declared=("KEY",), name="KEY")
    found = await granted(ann, **needs)
    assert (dict(found.env), found.hosts) == ({"KEY": "s3cret"}, ("api.example.com",))
    changed = await granted(ann, digest="b" * 64, **needs)
    assert changed.env == {}
    assert "has changed since" in changed.denied["KEY"]
    EnvGrants(desk.database).forbid(ann, slug="triage", name="KEY")
    assert (await granted(ann, **needs)).env == {}


async def test_another_organization_is_given_nothing_of_it(desk: Any, granted: Any, ann: Actor) -> None:
    EnvGrants(desk.database).allow(ann, slug="triage", digest=DIGEST, declared=("KEY",), name="KEY")
    other = Actor(name="ann", organization="other", user="ann")
    assert (await granted(other, env=["KEY"])).env == {}


async def test_links_are_followed_before_a_folder_is_judged(
    desk: Any, granted: Any, ann: Actor, workspace: Path, tmp_path: Path
) -> None:
    found = await granted(ann, roots=["notes", "out", "rw:.agents/skills", "notes/../../elsewhere"])
    assert [root.path for root in found.roots] == [(workspace / "notes").resolve()]
    assert sorted(found.denied) == [".agents/skills", "out"]
    Policies(desk.database).change(ann, "skill_roots", [str(tmp_path / "elsewhere")])
    found = await granted(ann, roots=["rw:out"])
    assert [(root.name, root.path, root.writable) for root in found.roots] == [
        ("out", (tmp_path / "elsewhere").resolve(), True)
    ]


async def test_a_function_is_given_the_workspace_and_a_program_only_folders_in_it(granted: Any, ann: Actor) -> None:
    roots = [".", ".prowess", "notes"]
    found = await granted(ann, roots=roots)
    assert [root.name for root in found.roots] == [".", "notes"]
    ran = await granted(ann, artifact=CliCommand(name="log", handler="git log"), roots=roots)
    assert [root.name for root in ran.roots] == ["notes"]
    assert sorted(ran.denied) == [".", ".prowess", "git"]


async def test_a_skill_that_asks_for_nothing_is_given_nothing_and_nothing_is_read(new_call: Any, ann: Actor) -> None:
    class Never:
        def resolve(self, *_: Any, **__: Any) -> Grants:
            raise AssertionError

    call = new_call(skill(DIGEST, EXECUTE, {}), EXECUTE, actor=ann)
    assert (await look_up_grants(Never())(call)).denied == {}


async def test_without_records_only_what_needs_no_word_is_given(new_call: Any, ann: Actor, workspace: Path) -> None:
    needs = {"env": ["KEY"], "roots": ["notes"], "binaries": ["git"]}
    call = new_call(skill(DIGEST, EXECUTE, needs), EXECUTE, actor=ann)
    resolver = GrantResolver(environment={"KEY": "v"}, workspace=workspace, closed=())
    found = await look_up_grants(resolver)(call)
    assert (found.env, len(found.roots), found.binaries) == ({}, 1, ())
    assert sorted(found.denied) == ["KEY", "git"]
