"""Organizations, members and tokens: who may manage them, and what ends when somebody leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from prowess.errors import Conflict, Invalid, NotFound, Refused
from prowess.policy.actor import AGENT_PERMISSIONS, PERMISSIONS, Actor, agent_of
from prowess.policy.people import MEMBER_PERMISSIONS, People
from prowess.policy.sign_in import SignIns
from prowess.policy.tokens import Tokens, to_actor
from prowess.storage.credentials import hash_secret
from prowess.storage.database import Database
from prowess.storage.people import tokens as token_table

OPERATOR = Actor(name="root", channel="cli")


@pytest.fixture
def people(database: Database) -> People:
    """Two organizations: acme with the admin ann and the member bob, and globex with the admin gus."""
    made = People(database)
    for organization, admin in (("acme", "ann"), ("globex", "gus")):
        made.create_organization(OPERATOR, organization)
        made.add_member(OPERATOR, admin, organization=organization, admin=True)
    made.add_member(OPERATOR, "bob", organization="acme")
    return made


@pytest.fixture
def tokens(database: Database, people: People) -> Tokens:
    return Tokens(database)


def person(name: str, organization: str = "acme", **changes: Any) -> Actor:
    changes.setdefault("permissions", PERMISSIONS if name in ("ann", "gus") else MEMBER_PERMISSIONS)
    return Actor(name=name, user=name, organization=organization, **changes)


ANN, BOB, GUS = person("ann"), person("bob"), person("gus", "globex")


def actor_of(tokens: Tokens, secret: str) -> Actor | None:
    holder = tokens.find_holder(secret)
    return to_actor(holder, channel="http") if holder else None


def actor_or_fail(tokens: Tokens, secret: str) -> Actor:
    found = actor_of(tokens, secret)
    assert found is not None
    return found


def test_an_admin_manages_the_members_of_their_own_organization(people: People, desk: Any) -> None:
    people.add_member(ANN, "eve", name="Eve", email="eve@acme.example", permissions=["skills.read"])
    people.change_member(ANN, "eve", permissions=["skills.read", "skills.run"])
    removed = people.remove_member(ANN, "eve")

    assert [one.user_id for one in people.list_members(ANN)] == ["ann", "bob", "eve"]
    assert (removed.permissions, removed.role) == (("skills.read", "skills.run"), "member")
    assert removed.deactivated_at is not None
    entries = [(row.actor, row.action, row.outcome, row.detail["user"]) for row in desk.audit()[-3:]]
    assert entries == [("ann", "member", outcome, "eve") for outcome in ("added", "changed", "removed")]


def test_the_operator_is_recorded_under_a_name_that_no_member_can_have(people: People, desk: Any) -> None:
    assert {row.actor for row in desk.audit("globex")} == {"operator:root"}
    with pytest.raises(Invalid):
        people.add_member(ANN, "operator:root")


@pytest.mark.parametrize("actor", [BOB, agent_of(ANN), person("ann", permissions=MEMBER_PERMISSIONS)])
def test_nobody_but_an_admin_manages_members_and_every_attempt_is_recorded(
    people: People, desk: Any, actor: Actor
) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: people.add_member(actor, "eve"),
        lambda: people.change_member(actor, "bob", admin=True),
        lambda: people.remove_member(actor, "bob"),
        lambda: people.list_members(actor),
        lambda: people.bind_identity(actor, "bob", issuer="https://id.example", subject="1"),
        lambda: people.create_organization(actor, "mine"),
        lambda: people.deactivate_organization(actor, "acme"),
        lambda: people.deactivate_user(actor, "bob"),
    ]

    before = len(desk.audit())

    for call in calls:
        with pytest.raises(Refused):
            call()

    # All but the list, which changes nothing.
    denied = [(row.actor, row.outcome) for row in desk.audit()[before:]]
    assert denied == [(actor.label, "denied")] * 7


def test_another_organization_looks_like_one_that_does_not_exist(people: People) -> None:
    for name in ("globex", "unknown"):
        with pytest.raises(NotFound, match=f"No organization '{name}'"):
            people.list_members(ANN, organization=name)
        with pytest.raises(NotFound, match=f"No organization '{name}'"):
            people.get_organization(ANN, name)
    for user in ("gus", "unknown"):
        with pytest.raises(NotFound, match=f"No user '{user}'"):
            people.get_member(ANN, user)
    assert [one.id for one in people.list_organizations(ANN)] == ["acme"]
    assert [one.id for one in people.list_organizations(OPERATOR)] == ["acme", "globex"]


def test_a_user_of_another_organization_is_added_by_the_operator_alone(people: People) -> None:
    with pytest.raises(Conflict, match="taken"):
        people.add_member(ANN, "gus")

    people.add_member(OPERATOR, "gus", organization="acme")

    assert people.get_member(ANN, "gus").role == "member"
    assert people.get_member(GUS, "gus").role == "admin"


def test_ids_are_handles_and_never_used_again(people: People) -> None:
    people.deactivate_organization(OPERATOR, "globex")

    with pytest.raises(Conflict, match="taken"):
        people.create_organization(OPERATOR, "globex")
    for bad in ("", "Acme", "-a", "a-", "a.b", "a" * 64, "ä", "a\n"):
        with pytest.raises(Invalid):
            people.create_organization(OPERATOR, bad)
        with pytest.raises(Invalid):
            people.add_member(ANN, bad)


def test_the_last_admin_stays(people: People) -> None:
    for call in (
        lambda: people.remove_member(ANN, "ann"),
        lambda: people.change_member(OPERATOR, "ann", organization="acme"),
        lambda: people.deactivate_user(OPERATOR, "ann"),
    ):
        with pytest.raises(Refused, match="last admin"):
            call()

    people.change_member(ANN, "bob", admin=True)
    people.remove_member(person("bob", permissions=PERMISSIONS), "ann")

    assert [one.user_id for one in people.list_members(OPERATOR, organization="acme") if not one.deactivated_at] == [
        "bob"
    ]


def test_two_admins_who_remove_each_other_at_once_leave_one(people: People, at_once: Any) -> None:
    people.change_member(ANN, "bob", admin=True)
    bob = person("bob", permissions=PERMISSIONS)

    results = at_once(lambda: people.remove_member(ANN, "bob"), lambda: people.remove_member(bob, "ann"))

    assert sorted(type(result).__name__ for result in results) == ["Member", "Refused"]


def test_a_token_acts_for_its_user_with_what_both_are_allowed(people: People, tokens: Tokens) -> None:
    made = tokens.create(BOB, name="laptop", scopes=["skills.read", "skills.run"])
    people.change_member(ANN, "bob", permissions=["skills.read"])

    assert made.secret.startswith("prw_")
    assert actor_of(tokens, made.secret) == person(
        "bob", permissions=frozenset({"skills.read"}), channel="http", token=made.token.id
    )


def test_the_secret_of_a_token_is_not_stored(people: People, tokens: Tokens, database: Database) -> None:
    made = tokens.create(BOB)

    with database.read() as connection:
        [row] = connection.execute(sa.select(token_table)).all()
    assert made.secret not in str(row)
    assert row.hash == hash_secret(made.secret)
    assert "hash" not in made.as_json()


def test_an_agents_token_never_approves_administers_or_creates_tokens(tokens: Tokens) -> None:
    made = tokens.create(ANN, agent="builder")
    agent = actor_of(tokens, made.secret)

    assert agent is not None
    assert (agent.kind, agent.name, agent.label) == ("agent", "builder", "agent:builder@ann")
    assert agent.permissions == AGENT_PERMISSIONS
    with pytest.raises(Refused, match="An agent cannot create tokens"):
        tokens.create(agent)
    with pytest.raises(Refused, match="An agent cannot"):
        tokens.list(agent)
    with pytest.raises(Refused, match="An agent cannot"):
        tokens.revoke(agent, made.token.id)
    for scope in ("approvals.resolve", "admin"):
        with pytest.raises(Refused, match="token for an agent"):
            tokens.create(ANN, agent="builder", scopes=[scope])


def test_nobody_creates_a_token_with_more_than_their_own_permissions(tokens: Tokens) -> None:
    reader = person("ann", permissions=frozenset({"skills.read", "admin"}))

    assert set(tokens.create(reader).token.scopes) == {"skills.read", "admin"}
    for actor, scope in ((BOB, "admin"), (reader, "skills.write")):
        with pytest.raises(Refused):
            tokens.create(actor, scopes=[scope])
    # An admin can give a member no more than the membership does.
    with pytest.raises(Refused):
        tokens.create(ANN, user="bob", scopes=["admin"])
    with pytest.raises(Invalid):
        tokens.create(BOB, scopes=["skills.readd"])
    with pytest.raises(Invalid):
        tokens.create(BOB, scopes=[])


def test_people_see_and_revoke_their_own_tokens_and_admins_all_of_the_organization(tokens: Tokens, desk: Any) -> None:
    bobs, anns, guss = (tokens.create(one, name=one.name).token for one in (BOB, ANN, GUS))

    assert [one.id for one in tokens.list(BOB)] == [bobs.id]
    assert {one.id for one in tokens.list(ANN, everyone=True)} == {bobs.id, anns.id}
    assert len(tokens.list(OPERATOR, everyone=True)) == 3
    with pytest.raises(Refused):
        tokens.list(BOB, everyone=True)
    with pytest.raises(NotFound):
        tokens.list(BOB, user="ann")
    for actor, foreign in ((BOB, anns), (ANN, guss), (BOB, guss)):
        with pytest.raises(NotFound, match=f"No token '{foreign.id}'"):
            tokens.revoke(actor, foreign.id)

    assert tokens.revoke(ANN, bobs.id).state == "revoked"

    with pytest.raises(Conflict):
        tokens.revoke(BOB, bobs.id)
    assert (desk.audit()[-1].action, desk.audit()[-1].outcome) == ("token", "revoked")


def test_a_revoked_expired_or_unknown_token_lets_nobody_act(tokens: Tokens, database: Database) -> None:
    revoked, expired = tokens.create(BOB), tokens.create(BOB)
    tokens.revoke(BOB, revoked.token.id)
    with database.write() as connection:
        over = sa.update(token_table).where(token_table.c.id == expired.token.id)
        connection.execute(over.values(expires_at="2020-01-01T00:00:00.000000Z"))

    for secret in (revoked.secret, expired.secret, "", "prw_unknown", "\udc80", hash_secret(expired.secret)):
        assert tokens.find_holder(secret) is None


@pytest.mark.parametrize("end", ["membership", "user", "organization"])
def test_leaving_ends_all_tokens_codes_and_web_sessions_at_once(
    people: People, tokens: Tokens, database: Database, end: str
) -> None:
    sign_ins = SignIns(database)
    token, unused = tokens.create(BOB), sign_ins.create_code(BOB)
    session = sign_ins.use_code(sign_ins.create_code(BOB))
    other = tokens.create(GUS)
    assert sign_ins.find_holder(session.secret) is not None

    if end == "membership":
        people.remove_member(ANN, "bob")
    elif end == "user":
        people.deactivate_user(OPERATOR, "bob")
    else:
        people.deactivate_organization(OPERATOR, "acme")

    assert tokens.find_holder(token.secret) is None
    assert sign_ins.find_holder(session.secret) is None
    with pytest.raises(Refused):
        sign_ins.use_code(unused)
    assert tokens.find_holder(other.secret) is not None


def test_joining_again_revives_no_old_token(people: People, tokens: Tokens) -> None:
    old = tokens.create(BOB)
    people.remove_member(ANN, "bob")
    people.add_member(ANN, "bob")

    assert tokens.find_holder(old.secret) is None
    assert tokens.find_holder(tokens.create(BOB).secret) is not None


def test_only_the_operator_creates_tokens_that_never_expire(tokens: Tokens) -> None:
    assert tokens.create(OPERATOR, organization="acme", user="bob", days=None).token.expires_at is None
    assert tokens.create(BOB).token.expires_at is not None
    with pytest.raises(Refused, match="never expires"):
        tokens.create(ANN, days=None)
    for days in (0, -1, 367, float("nan")):
        with pytest.raises(Invalid):
            tokens.create(ANN, days=days)


@pytest.mark.parametrize("days", [1, 90, None])
def test_a_token_expires_no_later_than_the_one_it_was_created_with(tokens: Tokens, days: float | None) -> None:
    maker = tokens.create(OPERATOR, days=30)
    made = tokens.create(actor_or_fail(tokens, maker.secret), days=days).token

    assert maker.token.expires_at is not None
    assert made.expires_at is not None
    assert (made.expires_at < maker.token.expires_at) == (days == 1)
    assert made.expires_at <= maker.token.expires_at
    assert made.created_with == maker.token.id


def test_revoking_a_token_revokes_those_that_were_created_with_it(tokens: Tokens, people: People) -> None:
    other, first = tokens.create(ANN), tokens.create(ANN)
    second = tokens.create(actor_or_fail(tokens, first.secret), user="bob")
    third = tokens.create(actor_or_fail(tokens, second.secret), agent="helper")
    tokens.revoke(ANN, first.token.id)

    assert [tokens.find_holder(one.secret) for one in (first, second, third)] == [None] * 3
    kept = actor_or_fail(tokens, other.secret)
    of_bob = tokens.create(kept, user="bob")
    people.add_member(ANN, "eve", admin=True)
    people.remove_member(person("eve", permissions=PERMISSIONS), "ann")
    assert tokens.find_holder(of_bob.secret) is None
    with pytest.raises(Refused, match="has been revoked"):
        tokens.create(kept)


def test_the_operators_own_token_may_do_everything_on_this_machine(tokens: Tokens) -> None:
    made = tokens.create(OPERATOR, name="script")

    assert actor_of(tokens, made.secret) == Actor(name="root", channel="http", token=made.token.id)


def test_a_token_row_without_an_organization_but_with_a_user_lets_nobody_act(
    tokens: Tokens, database: Database
) -> None:
    made = tokens.create(BOB)
    with database.write() as connection:
        connection.execute(sa.update(token_table).values(organization_id=""))

    assert tokens.find_holder(made.secret) is None


def test_the_engine_records_the_last_use_of_a_token_once_a_minute(each_place: Any) -> None:
    async def work() -> list[str | None]:
        async with each_place.open() as prowess:
            made = await prowess.tokens.create("script")
            seen = []
            for _ in range(3):
                assert await prowess.tokens.authenticate(made.secret) is not None
                await asyncio.gather(*prowess.tokens._lookup._tasks)
                seen += [token.last_used_at for token in await prowess.tokens.list()]
            assert await prowess.tokens.authenticate("prw_wrong") is None
            return seen

    seen = asyncio.run(work())

    assert seen[0] is not None
    assert len(set(seen)) == 1


def test_text_that_a_database_cannot_store_is_refused_as_invalid_or_not_found(people: People, tokens: Tokens) -> None:
    sign_ins = SignIns(tokens.database)
    for text in ("a\0b", "a\ud800", "'; DROP TABLE tokens; --"):
        calls: list[Callable[[], Any]] = [
            lambda text=text: people.get_organization(OPERATOR, text),
            lambda text=text: people.list_members(OPERATOR, organization=text),
            lambda text=text: people.get_member(ANN, text),
            lambda text=text: people.remove_member(ANN, text),
            lambda text=text: people.deactivate_user(OPERATOR, text),
            lambda text=text: tokens.revoke(ANN, text),
            lambda text=text: tokens.create(OPERATOR, organization="acme", user=text),
            lambda text=text: sign_ins.revoke(ANN, text),
            lambda text=text: sign_ins.create_code(ANN, user=text),
        ]
        for call in calls:
            with pytest.raises((Invalid, NotFound)):
                call()
        with pytest.raises(Refused):
            sign_ins.use_code(text)
        assert tokens.find_holder(text) is None


def test_a_token_with_few_permissions_cannot_get_more_through_a_browser(people: People, database: Database) -> None:
    sign_ins = SignIns(database)
    for actor in (
        person("bob", permissions=frozenset({"skills.read"})),
        person("ann", permissions=frozenset({"admin"})),
    ):
        with pytest.raises(Refused, match="fewer permissions"):
            sign_ins.create_code(actor)
    with pytest.raises(Refused, match="An agent cannot"):
        sign_ins.create_code(agent_of(ANN))
    with pytest.raises(NotFound):
        sign_ins.create_code(BOB, user="ann")
    assert sign_ins.use_code(sign_ins.create_code(ANN, user="bob")).session.user_id == "bob"
