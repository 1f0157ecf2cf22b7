"""A bearer token gives its caller: from a token file of this machine, or from the database."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from prowess import Prowess
from prowess.interfaces.auth.tokens import ensure_local_tokens, find_callers
from prowess.policy.actor import AGENT_PERMISSIONS, PERMISSIONS

pytestmark = pytest.mark.anyio


@pytest.fixture
async def engine(each_place: Any) -> AsyncGenerator[Prowess]:
    async with each_place.open() as prowess:
        yield prowess


async def test_the_first_start_makes_a_token_for_the_person_and_one_for_agents(engine: Prowess, tmp_path: Path) -> None:
    local = ensure_local_tokens(tmp_path / "home", engine)

    files = {name: tmp_path / "home" / name for name in ("server-token", "token")}
    assert {oct(path.stat().st_mode & 0o777) for path in files.values()} == {"0o600"}
    person, agent = (local.find(path.read_text().strip()) for path in files.values())
    assert person is not None
    assert agent is not None
    assert (person.actor.kind, person.actor.permissions) == ("person", PERMISSIONS)
    assert (agent.actor.kind, agent.actor.permissions) == ("agent", AGENT_PERMISSIONS)
    assert agent.named_by_client
    assert local.find("") is None


async def test_token_files_that_exist_stay_valid_and_two_processes_make_the_same(
    engine: Prowess, tmp_path: Path
) -> None:
    token = "an-older-token-of-an-agent-with-enough-characters"
    (tmp_path / "token").write_text(token + "\n")
    (tmp_path / "token").chmod(0o600)

    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: ensure_local_tokens(tmp_path, engine), range(8)))

    secret = (tmp_path / "server-token").read_text().strip()
    assert all(one.find(secret) is not None and one.find(token) is not None for one in made)


async def test_removing_replacing_or_opening_a_token_file_counts_at_once(engine: Prowess, tmp_path: Path) -> None:
    local = ensure_local_tokens(tmp_path, engine)
    path = tmp_path / "server-token"
    old = path.read_text().strip()

    path.chmod(0o644)
    assert local.find(old) is None
    path.chmod(0o600)
    assert local.find(old) is not None
    path.unlink()
    assert local.find(old) is None
    ensure_local_tokens(tmp_path, engine)
    assert local.find(old) is None
    assert local.find(path.read_text().strip()) is not None


async def test_a_token_of_the_database_is_found_until_it_is_revoked(engine: Prowess, tmp_path: Path) -> None:
    await engine.organizations.create("acme")
    await engine.users.add("ann", organization="acme", admin=True)
    made = await engine.tokens.create("laptop", organization="acme", user="ann", scopes=["skills.read"])
    find = find_callers(engine, ensure_local_tokens(tmp_path, engine))

    caller = await find(made.secret)
    await engine.tokens.revoke(made.token.id)

    assert caller is not None
    assert (caller.actor.organization, caller.actor.user, caller.actor.channel) == ("acme", "ann", "http")
    assert caller.actor.permissions == {"skills.read"}
    assert caller.person is None
    for token in (made.secret, made.secret[:-1], "", "x" * 10_000):
        assert await find(token) is None


async def test_a_token_that_one_process_revokes_is_refused_by_another_at_once(engine: Prowess, each_place: Any) -> None:
    async with each_place.open() as other:
        find = find_callers(other)
        made = await engine.tokens.create("script")
        assert await find(made.secret) is not None

        await engine.tokens.revoke(made.token.id)

        assert await find(made.secret) is None
