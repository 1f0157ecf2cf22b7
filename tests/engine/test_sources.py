"""Sources: what they deliver reaches the catalog, and what people did here stays."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from prowess.engine.skill_rows import SkillQuery, SkillRow
from prowess.errors import ApprovalRequired, Conflict, Invalid, NotFound, ProwessError, Refused, RunFailed, Unavailable
from prowess.open import Prowess
from prowess.policy.actor import Actor, agent_of
from prowess.settings import read_settings
from prowess.skill.draft import SkillDraft
from prowess.skill.package import Package
from prowess.sources.fetched import Fetched, UnreadableSkill
from prowess.sources.scripted import ScriptedFetcher, make_fetched

pytestmark = pytest.mark.anyio

URL = "https://github.com/acme/runbooks.git"
CONFIG = {"repo": "acme/runbooks", "path": "skills", "ref": "main"}
ANN = Actor(name="ann", organization="acme")


@pytest.fixture
def upstream() -> ScriptedFetcher:
    return ScriptedFetcher()


@pytest.fixture
async def acme(each_place: Any, upstream: ScriptedFetcher) -> AsyncIterator[Prowess]:
    settings = read_settings(each_place.environment)
    async with Prowess.open(settings=settings, actor=ANN, fetcher=upstream) as engine:
        yield engine


@pytest.fixture
async def local(place: Any, upstream: ScriptedFetcher) -> AsyncIterator[Prowess]:
    """An engine on SQLite, where the database makes no difference."""
    async with Prowess.open(settings=read_settings(place.environment), actor=ANN, fetcher=upstream) as engine:
        yield engine


def package(slug: str, body: str = "Do it well.") -> Package:
    text = f"---\nname: {slug}\ndescription: What {slug} is for.\n---\n\n# {slug}\n\n{body}\n"
    return Package.of_texts(slug, {"SKILL.md": text})


def has(upstream: ScriptedFetcher, bodies: Mapping[str, str], *, complete: bool = True) -> Fetched:
    """Let the source have these skills, by slug with their text."""
    packages = {f"skills/{slug}": package(slug, body) for slug, body in bodies.items()}
    upstream.answers[URL] = fetched = make_fetched(URL, packages, complete=complete)
    return fetched


async def add(engine: Prowess) -> str:
    return (await engine.sources.create("Runbooks", "github", CONFIG)).id


async def rows_of(engine: Prowess, source: str = "") -> tuple[SkillRow, ...]:
    return (await engine.skills.page(SkillQuery(source_id=source))).rows


async def bodies(engine: Prowess, source: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for row in await rows_of(engine, source):
        skill = await engine.skills.get(row.slug)
        found[row.slug] = skill.body.rpartition("\n\n")[2].strip()
    return found


async def edit(engine: Prowess, slug: str, body: str) -> None:
    text = package(slug, body).files[0].content.decode()
    await engine.skills.update_document(slug, SkillDraft(content=text))


async def test_skills_of_a_source_arrive_with_their_origin_and_wait_for_approval(
    acme: Prowess, upstream: ScriptedFetcher
) -> None:
    fetched = has(upstream, {"one": "First.", "two": "Second."})
    source = await add(acme)

    result = await acme.sources.sync(source)

    assert (result.status, result.counts) == ("ok", {"added": 2})
    one = await acme.skills.get("one")
    assert one.scope == "org"
    assert one.provenance.source_type == "github"
    assert one.provenance.source_url == "https://github.com/acme/runbooks/tree/main/skills/one"
    assert (one.provenance.source_ref, one.provenance.source_id) == (fetched.state.revision, source)
    rows = await rows_of(acme, source)
    assert [(row.slug, row.trust) for row in rows] == [("one", "synced"), ("two", "synced")]
    session = await acme.sessions.open("a")
    with pytest.raises(ApprovalRequired):
        await agent_engine(acme).enable("one", session=session)
    stored = await acme.sources.get(source)
    assert (stored.last_sync_status, stored.last_sync_error, stored.revision) == ("ok", None, fetched.state.revision)


def agent_engine(engine: Prowess) -> Prowess:
    return engine.as_actor(agent_of(engine.actor))


async def test_only_what_changed_is_written_and_nothing_the_second_time(
    acme: Prowess, upstream: ScriptedFetcher
) -> None:
    has(upstream, {"one": "First.", "two": "Second."})
    source = await add(acme)
    await acme.sources.sync(source)
    has(upstream, {"one": "First.", "two": "Changed.", "three": "Third."})

    changed = await acme.sources.sync(source)
    audit = await acme.audit.last()
    again = await acme.sources.sync(source)

    assert changed.counts == {"unchanged": 1, "updated": 1, "added": 1}
    assert (again.unchanged, again.counts) == (True, {"unchanged": 3})
    assert await acme.audit.last() == audit
    assert [version.actor for version in await acme.skills.history("two")] == [f"source:{source}"] * 2
    assert len(await acme.skills.history("one")) == 1


async def test_a_skill_that_was_edited_here_is_never_touched(acme: Prowess, upstream: ScriptedFetcher) -> None:
    has(upstream, {"one": "First.", "two": "Second."})
    source = await add(acme)
    await acme.sources.sync(source)
    await edit(acme, "one", "Ours.")
    await acme.skills.delete("two")
    has(upstream, {"one": "Theirs.", "two": "Theirs."})

    result = await acme.sources.sync(source)

    assert (result.status, result.counts) == ("partial", {"conflict": 2})
    assert await bodies(acme) == {"one": "Ours."}
    stored = await acme.sources.get(source)
    assert {problem["slug"] for problem in stored.problems} == {"one", "two"}
    taken = await acme.sources.sync(source, take=["one", "two"])
    assert taken.counts == {"updated": 1, "added": 1}
    assert await bodies(acme, source) == {"one": "Theirs.", "two": "Theirs."}


async def test_a_removed_skill_is_deleted_unless_it_was_edited(acme: Prowess, upstream: ScriptedFetcher) -> None:
    has(upstream, {"one": "First.", "two": "Second.", "three": "Third."})
    source = await add(acme)
    await acme.sources.sync(source)
    await edit(acme, "two", "Ours.")
    has(upstream, {"three": "Third."})

    result = await acme.sources.sync(source)

    assert result.counts == {"unchanged": 1, "removed": 1, "conflict": 1}
    assert await bodies(acme) == {"two": "Ours.", "three": "Third."}
    assert [version.change for version in await acme.skills.history("one")] == ["create", "delete"]


async def test_a_half_list_and_an_empty_one_delete_nothing(local: Prowess, upstream: ScriptedFetcher) -> None:
    has(upstream, {"one": "First.", "two": "Second."})
    source = await add(local)
    await local.sources.sync(source)

    has(upstream, {"two": "Second."}, complete=False)
    half = await local.sources.sync(source)
    has(upstream, {})
    empty = await local.sources.sync(source)

    assert half.counts == {"unchanged": 1}
    assert (empty.counts, [warning.code for warning in empty.warnings]) == ({}, ["source-empty"])
    assert await bodies(local) == {"one": "First.", "two": "Second."}


async def test_a_source_that_fails_changes_nothing_and_heals(local: Prowess, upstream: ScriptedFetcher) -> None:
    has(upstream, {"one": "First."})
    source = await add(local)
    await local.sources.sync(source)
    before = await local.sources.get(source)

    del upstream.answers[URL]
    missing = await local.sources.sync(source)
    upstream.answers[URL] = RunFailed("The connection broke.", hint="Try again.")
    broken = await local.sources.sync(source)
    failed = await local.sources.get(source)
    has(upstream, {"one": "Second."})
    healed = await local.sources.sync(source)

    assert isinstance(missing.error, NotFound)
    assert (broken.status, broken.error and broken.error.code) == ("failed", "run-failed")
    assert failed.last_sync_error == "The connection broke. Try again."
    assert (failed.revision, failed.counts) == (before.revision, before.counts)
    assert healed.counts == {"updated": 1}
    assert (await local.sources.get(source)).last_sync_error is None


async def test_one_bad_skill_stops_no_other(local: Prowess, upstream: ScriptedFetcher) -> None:
    good = make_fetched(URL, {"skills/good": package("good"), "skills/bad": Package.of_texts("bad", {"SKILL.md": ""})})
    unreadable = UnreadableSkill(path="skills/huge", error=Refused("It is too large."))
    upstream.answers[URL] = Fetched(state=good.state, skills=good.skills, unreadable=(unreadable,))
    source = await add(local)

    result = await local.sources.sync(source)

    assert {change.path: change.status for change in result.changes} == {
        "skills/good": "added",
        "skills/bad": "invalid",
        "skills/huge": "refused",
    }
    assert result.status == "partial"
    assert list(await bodies(local)) == ["good"]


async def test_a_skill_that_can_no_longer_be_read_is_kept(local: Prowess, upstream: ScriptedFetcher) -> None:
    has(upstream, {"one": "First.", "two": "Second."})
    source = await add(local)
    await local.sources.sync(source)
    broken = make_fetched(URL, {"skills/one": Package.of_texts("one", {"SKILL.md": ""}), "skills/two": package("two")})
    upstream.answers[URL] = broken

    await local.sources.sync(source)

    assert (await bodies(local))["one"] == "First."


async def test_a_slug_that_another_skill_has_is_a_conflict(local: Prowess, upstream: ScriptedFetcher) -> None:
    await local.skills.create_document(SkillDraft(content=package("one", "Ours.").files[0].content.decode()))
    draft = SkillDraft(content=package("far", "Ours.").files[0].content.decode())
    await local.skills.create_document(draft, scope="account")
    has(upstream, {"one": "Theirs.", "far": "Theirs.", "new": "Theirs."})
    packages = {"skills/new": package("new"), "more/new": package("new", "Another.")}
    source = await add(local)

    result = await local.sources.sync(source)
    upstream.answers[URL] = make_fetched(URL, packages)
    twice = await local.sources.sync(source)

    assert {change.slug: change.status for change in result.changes} == {
        "one": "conflict",
        "far": "conflict",
        "new": "added",
    }
    assert (await bodies(local))["one"] == "Ours."
    assert {change.path: change.status for change in twice.changes} == {"skills/new": "updated", "more/new": "conflict"}


async def test_a_preview_says_what_would_come_and_changes_nothing(local: Prowess, upstream: ScriptedFetcher) -> None:
    has(upstream, {"one": "First."})

    preview = await local.sources.preview(source_type="github", config=CONFIG)

    assert (preview.preview, preview.counts) == (True, {"added": 1})
    assert await local.sources.list() == []
    assert await bodies(local) == {}


async def test_of_two_syncs_at_once_one_runs_and_the_other_is_told(acme: Prowess, upstream: ScriptedFetcher) -> None:
    has(upstream, {"one": "First."})
    source = await add(acme)
    started, go_on = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        started.set()
        await go_on.wait()

    upstream.before = wait
    first = asyncio.create_task(acme.sources.sync(source))
    await started.wait()

    with pytest.raises(Conflict, match="Another sync"):
        await acme.sources.sync(source)
    assert await acme.sources.sync_stale() == []
    go_on.set()

    assert (await first).counts == {"added": 1}
    assert not (await acme.sources.get(source)).is_syncing


async def test_a_sync_that_fails_after_its_source_was_deleted_is_told(
    local: Prowess, upstream: ScriptedFetcher
) -> None:
    source = await add(local)
    upstream.answers[URL] = Unavailable("The host does not answer.")

    async def delete() -> None:
        await local.sources.delete(source)

    upstream.before = delete
    with pytest.raises(Conflict, match="was deleted or changed"):
        await local.sources.sync(source)


async def test_a_new_address_stops_the_sync_of_the_old_one(acme: Prowess, upstream: ScriptedFetcher) -> None:
    has(upstream, {"one": "First."})
    source = await add(acme)

    async def move() -> None:
        upstream.before = None
        await acme.sources.update(source, config={**CONFIG, "path": "more"})

    upstream.before = move
    with pytest.raises(Conflict, match="was deleted or changed"):
        await acme.sources.sync(source)

    stored = await acme.sources.get(source)
    assert (await bodies(acme), stored.revision, stored.is_syncing) == ({}, "", False)
    assert (await acme.sources.sync(source)).counts == {"added": 1}


async def test_a_change_of_what_happens_to_removed_skills_counts_at_once_and_keeps_the_pinned_key(
    acme: Prowess, upstream: ScriptedFetcher
) -> None:
    def has_signed(bodies: Mapping[str, str]) -> None:
        fetched = has(upstream, bodies)
        upstream.answers[URL] = replace(fetched, state=replace(fetched.state, key="ours", sequence=7))

    has_signed({"one": "First.", "two": "Second."})
    source = (await acme.sources.create("Runbooks", "github", {**CONFIG, "on_removed": "keep"})).id
    await acme.sources.sync(source)
    has_signed({"one": "First."})
    await acme.sources.sync(source)
    kept = await bodies(acme)

    await acme.sources.update(source, config={**CONFIG, "on_removed": "delete"})

    stored = await acme.sources.get(source)
    assert (stored.pinned_key, stored.sequence, stored.fetched_url) == ("ours", 7, URL)
    await acme.sources.sync(source)
    assert (kept, await bodies(acme)) == ({"one": "First.", "two": "Second."}, {"one": "First."})


async def test_a_cancelled_sync_lets_the_next_one_begin(local: Prowess, upstream: ScriptedFetcher) -> None:
    has(upstream, {"one": "First."})
    source = await add(local)
    started = asyncio.Event()

    async def wait_forever() -> None:
        started.set()
        await asyncio.Event().wait()

    upstream.before = wait_forever
    task = asyncio.create_task(local.sources.sync(source))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    upstream.before = None

    assert (await local.sources.sync(source)).counts == {"added": 1}


async def test_another_organization_sees_nothing_of_a_source(acme: Prowess, upstream: ScriptedFetcher) -> None:
    has(upstream, {"one": "First."})
    source = await add(acme)
    await acme.sources.sync(source)
    borg = acme.as_actor(Actor(name="bob", organization="borg"))

    unknown = await error_of(borg.sources.sync("00000000-0000-0000-0000-000000000000"))
    errors = [
        await error_of(borg.sources.get(source)),
        await error_of(borg.sources.sync(source)),
        await error_of(borg.sources.update(source, name="mine")),
        await error_of(borg.sources.delete(source, remove_skills=True)),
        await error_of(borg.sources.preview(source)),
    ]

    assert {(type(error), str(error).replace(source, "ID")) for error in errors} == {
        (NotFound, str(unknown).replace("00000000-0000-0000-0000-000000000000", "ID"))
    }
    assert await borg.sources.list() == []
    assert await bodies(acme) == {"one": "First."}


async def error_of(awaitable: Any) -> Exception:
    with pytest.raises(ProwessError) as raised:
        await awaitable
    return raised.value


async def test_only_a_person_who_may_write_changes_sources(local: Prowess) -> None:
    source = await add(local)
    agent = agent_engine(local)
    reader = local.as_actor(Actor(name="ray", organization="acme", permissions=frozenset({"skills.read"})))

    for engine in (agent, reader):
        assert [one.id for one in await engine.sources.list()] == [source]
        for attempt in (add(engine), engine.sources.sync(source), engine.sources.delete(source)):
            assert isinstance(await error_of(attempt), Refused)


@pytest.mark.parametrize(
    ("source_type", "config"),
    [
        ("github", {}),
        ("github", {"repo": "acme/runbooks", "token": "secret"}),
        ("github", {"repo": "/etc"}),
        ("github", {"repo": "file:///srv/repo.git"}),
        ("github", {"repo": "git@host:acme/runbooks.git"}),
        ("github", {"repo": "acme/runbooks", "ref": "--upload-pack=x"}),
        ("github", {"repo": "acme/runbooks", "path": "../.."}),
        ("github", {"repo": "acme/runbooks", "sync_policy": "sometimes"}),
        ("github", {"repo": "acme/runbooks", "sync_interval_minutes": 0}),
        ("url", {"url": "http://example.com/skill.md"}),
        ("url", {"url": "acme/runbooks"}),
        ("url", {"url": "/etc/passwd"}),
        ("ftp", {"url": "https://example.com/skill.md"}),
    ],
)
async def test_a_configuration_that_cannot_work_is_refused_at_once(
    local: Prowess, source_type: str, config: dict[str, Any]
) -> None:
    with pytest.raises(Invalid):
        await local.sources.create("x", source_type, config)


async def test_stale_sources_are_synced_together_and_due_ones_by_the_operator(
    place: Any, upstream: ScriptedFetcher
) -> None:
    has(upstream, {"one": "First."})
    async with Prowess.open(settings=read_settings(place.environment), fetcher=upstream) as operator:
        acme = operator.as_actor(ANN)
        manual = await add(acme)
        auto = (await acme.sources.create("Auto", "github", {**CONFIG, "path": "auto", "sync_policy": "auto"})).id
        off = (await acme.sources.create("Off", "github", CONFIG, enabled=False)).id

        due = await operator.sources.sync_due()
        stale = await acme.sources.sync_stale()
        later = await acme.sources.sync_stale()

        assert [result.source.id for result in due] == [auto]
        assert [result.source.id for result in stale] == [manual]
        assert later == []
        assert [version.actor for version in await acme.skills.history("one")] == [f"source:{auto}"]
        rows = [row for row in await acme.audit.rows() if row.slug == "one"]
        assert [(row.actor, row.action, row.outcome) for row in rows] == [(f"source:{auto}", "install", "synced")]
        with pytest.raises(Refused):
            await acme.sources.sync(off)
        with pytest.raises(Refused):
            await acme.sources.sync_due()


@pytest.mark.parametrize(
    "damaged", ['{"sync_policy": "auto"}', '{"sync_policy": "auto", "sync_interval_minutes": "x"}', "null"]
)
async def test_a_source_that_another_program_damaged_holds_up_no_other(
    place: Any, upstream: ScriptedFetcher, caplog: pytest.LogCaptureFixture, damaged: str
) -> None:
    has(upstream, {"one": "First."})
    async with Prowess.open(settings=read_settings(place.environment), fetcher=upstream) as operator:
        config = {**CONFIG, "sync_policy": "auto"}
        bad, good = [
            (await operator.as_actor(ANN).sources.create(name, "github", config)).id for name in ("bad", "good")
        ]
        with closing(sqlite3.connect(Path(place.environment["PROWESS_HOME"], "agents.db"))) as database, database:
            change = "UPDATE skill_sources SET config = ?, last_sync_at = '2020' WHERE id = ?"
            assert database.execute(change, (damaged, bad)).rowcount == 1

        due = await operator.sources.sync_due()

        assert [result.source.id for result in due] == [good]
        assert {source.id for source in await operator.as_actor(ANN).sources.list()} == {bad, good}
        if damaged != "null":
            assert f"The source {bad} could not be synced: The source 'bad' in the database was changed" in caplog.text
        with pytest.raises(Unavailable, match="'bad' in the database was changed by another program"):
            await operator.as_actor(ANN).sources.sync(bad)


async def test_a_deleted_source_keeps_or_takes_its_skills(local: Prowess, upstream: ScriptedFetcher) -> None:
    has(upstream, {"one": "First.", "two": "Second."})
    kept, taken = await add(local), await add(local)
    await local.sources.sync(kept)
    await edit(local, "two", "Ours.")

    assert await local.sources.delete(taken, remove_skills=True) == 0
    assert await local.sources.delete(kept, remove_skills=True) == 1

    assert await bodies(local) == {"two": "Ours."}
    assert await local.sources.list() == []


async def test_a_sync_is_published(local: Prowess, upstream: ScriptedFetcher) -> None:
    has(upstream, {"one": "First."})
    source = await add(local)

    await local.sources.sync(source)

    [event] = [event for event in await local.events.list() if event.name == "source_synced"]
    assert (event.data["source_id"], event.data["status"], event.data["counts"]) == (source, "ok", {"added": 1})


async def test_skills_that_are_installed_once_or_deleted_with_a_source_are_published(
    local: Prowess, upstream: ScriptedFetcher
) -> None:
    has(upstream, {"one": "First.", "two": "Second."})
    await local.sources.install("github", URL, slug="one", scope="user")
    await local.skills.delete("one")
    source = await add(local)
    await local.sources.sync(source)
    await local.sources.delete(source, remove_skills=True)

    changes = [event.data for event in await local.events.list(names=["catalog_changed"])]
    assert changes == [
        {"action": "install", "skill": "one", "count": 1},
        {"action": "delete", "skill": "one", "count": 1},
        {"action": "delete", "skill": None, "count": 2},
    ]


async def test_a_skill_that_could_not_be_installed_has_its_failure_in_the_audit(
    local: Prowess, place: Any, upstream: ScriptedFetcher
) -> None:
    has(upstream, {"one": "First."})
    await add(local)  # the database is there
    with closing(sqlite3.connect(Path(place.environment["PROWESS_HOME"], "agents.db"))) as database, database:
        database.execute("ALTER TABLE events RENAME TO elsewhere")

    with pytest.raises(Unavailable):
        await local.sources.install("github", URL)

    rows = [(row.action, row.outcome) for row in await local.audit.rows()]
    assert rows[-2:] == [("install", "begun"), ("install", "failed: unavailable")]
