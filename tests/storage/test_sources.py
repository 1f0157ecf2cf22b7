"""Sources belong to an organization or to one of its users, and one sync of a source runs at a time."""

from __future__ import annotations

import uuid

from prowess.storage import sources
from prowess.storage.clock import seconds_from_now
from prowess.storage.database import Database
from prowess.storage.owner import Owner
from prowess.storage.sources import Source, SourceItem

ANN = Owner(organization_id="acme", user_id="ann")
BOB = Owner(organization_id="acme", user_id="bob")
EVE = Owner(organization_id="other", user_id="ann")
DAY = 86_400.0


def add(database: Database, owner: Owner, name: str, **config: object) -> Source:
    source = Source(
        id=str(uuid.uuid4()),
        organization_id=owner.organization_id,
        user_id=owner.user_id,
        scope="user" if owner.user_id else "org",
        name=name,
        source_type="github",
        config={"repo": "acme/runbooks", **config},
    )
    with database.write() as connection:
        return sources.add_source(connection, source, "ann")


def test_a_source_is_seen_by_its_owner_alone(database: Database) -> None:
    shared = add(database, Owner(organization_id="acme"), "shared")
    own = add(database, ANN, "own")

    with database.read() as connection:
        names = [[source.name for source in sources.list_sources(connection, who)] for who in (ANN, BOB, EVE)]
        found = [sources.get_source(connection, who, own.id) for who in (ANN, BOB, EVE)]
        gone = sources.get_source(connection, ANN, "unknown")

    assert names == [["own", "shared"], ["shared"], []]
    assert found == [own, None, None]
    assert gone is None
    assert shared.last_sync_at is None


def test_another_owner_changes_and_deletes_nothing(database: Database) -> None:
    own = add(database, ANN, "own")
    foreign = Source(id=own.id, organization_id="other", user_id="", scope="org", name="", source_type="url", config={})

    with database.write() as connection:
        sources.put_items(connection, own, [SourceItem(slug="one", path="one", digest="d")])
        sources.change_source(connection, foreign, {"name": "mine now"})
        sources.delete_source(connection, foreign)
        sources.remove_items(connection, foreign, ["one"])
        taken = sources.take_lease(connection, foreign, "eve", 60)

    with database.read() as connection:
        assert sources.get_source(connection, ANN, own.id) == own
        assert list(sources.list_items(connection, own)) == ["one"]
        assert sources.list_items(connection, foreign) == {}
    assert not taken


def test_one_sync_at_a_time_until_its_lease_ends(database: Database) -> None:
    source = add(database, ANN, "own")

    def take(holder: str, seconds: float = 60) -> bool:
        with database.write() as connection:
            return sources.take_lease(connection, source, holder, seconds)

    assert [take("first"), take("second")] == [True, False]
    with database.write() as connection:
        assert sources.keep_lease(connection, source, "first", -1)  # as if it had stopped working
    assert take("second")
    with database.write() as connection:
        assert not sources.keep_lease(connection, source, "first", 60)
        assert not sources.end_lease(connection, source, "first", {"last_sync_status": "ok"})
        assert sources.end_lease(connection, source, "second", {"last_sync_status": "failed"})
    with database.read() as connection:
        after = sources.get_source(connection, ANN, source.id)
    assert after is not None
    assert (after.last_sync_status, after.lease_owner, after.is_syncing) == ("failed", None, False)


def test_a_sync_that_was_killed_before_the_clock_was_set_back_does_not_block_the_next_one(database: Database) -> None:
    source = add(database, ANN, "own")
    with database.write() as connection:
        assert sources.take_lease(connection, source, "killed", DAY)
        left = sources.get_source(connection, ANN, source.id)
        assert left is not None
        assert not left.is_syncing
        assert sources.take_lease(connection, source, "next", 60)


def test_a_new_address_forgets_the_state_of_the_old_one(database: Database) -> None:
    source = add(database, ANN, "own")
    with database.write() as connection:
        sources.take_lease(connection, source, "sync", 60)
        sources.end_lease(connection, source, "sync", {"revision": "abc", "sequence": 7})

    states: list[tuple[str, int]] = []
    for change in ({"sync_policy": "auto"}, {"repo": "acme/other"}):
        with database.write() as connection:
            kept = sources.get_source(connection, ANN, source.id)
            assert kept is not None
            sources.change_source(connection, kept, {"config": {**kept.config, **change}})
            kept = sources.get_source(connection, ANN, source.id)
            assert kept is not None
            states.append((kept.revision, kept.sequence))

    assert states == [("abc", 7), ("", 0)]


def test_sources_are_stale_after_their_interval_and_only_automatic_ones_are_due(database: Database) -> None:
    never = add(database, ANN, "never", sync_policy="auto")
    manual = add(database, ANN, "manual")
    ahead = add(database, ANN, "ahead")  # the clock was set back after its last sync
    recent = add(database, ANN, "recent")
    times = (
        (never, None),
        (manual, "2001-01-01T00:00:00.000000Z"),
        (ahead, seconds_from_now(DAY)),
        (recent, seconds_from_now(-60)),
    )
    with database.write() as connection:
        for source, at in times:
            sources.take_lease(connection, source, "sync", 60)
            sources.end_lease(connection, source, "sync", {"last_sync_at": at})
    with database.read() as connection:
        due = sources.list_automatic(connection)
        stale = [source.name for source in sources.list_sources(connection, ANN) if source.is_stale()]

    assert [source.id for source in due] == [never.id]
    assert stale == ["ahead", "manual", "never"]
