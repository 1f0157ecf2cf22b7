"""Metrics are made from the records: right, bounded, and the same from every process."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from prowess.errors import Unavailable
from prowess.feed import metrics as module
from prowess.feed.event_recorder import SkillLoad
from prowess.feed.metrics import Metrics, empty_metrics
from prowess.storage import approvals, ledger, sessions
from prowess.storage.database import open_database
from prowess.storage.deferred_database import DeferredDatabase
from prowess.storage.ledger import AuditEntry, EventEntry
from prowess.storage.owner import Owner

PAGE = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"
ACME = Owner(organization_id="acme", user_id="ann")


def write(database, *events: EventEntry, audits: tuple[AuditEntry, ...] = (), organization: str = "acme") -> None:
    with database.write() as connection:
        ledger.append(connection, organization, events=events, audits=audits)


def load(name: str, seconds: float = 0.004, scope: str = "workspace", error: str | None = None) -> EventEntry:
    return SkillLoad(name=name, source=f"{scope}:/skills/{name}", duration_s=seconds, error=error).entry()


def missing(name: str) -> EventEntry:
    return SkillLoad(name=name, duration_s=0.001, error="There is no such skill.").entry()


def samples(text: bytes, name: str) -> dict[tuple[str, ...], float]:
    """The samples of one name by the values of their labels, in the order of the labels' names."""
    return {
        tuple(value for _, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
        if sample.name == name
    }


def test_loads_are_counted_by_skill_and_scope(database):
    write(database, load("review"), load("review"), load("review", scope="user"), load("deploy"))
    assert samples(Metrics(database, "acme").exposition(), "skill_load_total") == {
        ("review", "workspace"): 2,
        ("review", "user"): 1,
        ("deploy", "workspace"): 1,
    }


def test_the_time_that_loads_took_is_a_histogram(database):
    write(database, load("review", 0.001), load("review", 0.002), load("review", 0.4), load("review", 60.0))
    text = Metrics(database, "acme").exposition()

    buckets = {bound: count for (bound, _), count in samples(text, "skill_load_duration_seconds_bucket").items()}
    assert (buckets["0.001"], buckets["0.0025"], buckets["0.1"], buckets["0.5"]) == (1, 2, 2, 3)
    assert (buckets["2.5"], buckets["+Inf"]) == (3, 4)
    assert samples(text, "skill_load_duration_seconds_count") == {("review",): 4}
    assert samples(text, "skill_load_duration_seconds_sum") == {("review",): 60.403}


def test_loads_that_gave_nothing_are_errors_and_no_loads(database):
    write(database, load("review", error="Denied."), load("review"))
    text = Metrics(database, "acme").exposition()
    assert samples(text, "skill_load_errors_total") == {("review", "workspace"): 1}
    assert samples(text, "skill_load_total") == {("review", "workspace"): 1}
    assert samples(text, "skill_load_duration_seconds_count") == {("review",): 1}


def test_names_that_somebody_made_up_share_one_series(database):
    names = ["../../etc/passwd", 'a"b\n{}', "nul\0", "lone\ud800", *(f"guess-{number}" for number in range(50))]
    write(database, *(missing(name) for name in names))
    text = Metrics(database, "acme").exposition()
    assert samples(text, "skill_load_errors_total") == {("unknown", "unknown"): len(names)}
    assert "guess" not in text.decode()


def test_only_the_most_loaded_skills_have_series_of_their_own(database, monkeypatch):
    monkeypatch.setattr(module, "MAX_NAMED_SKILLS", 2)
    entries = [load(f"s{number}") for number in range(5) for _ in range(number + 1)]
    write(database, *entries, load("s0", error="Denied."), load("s4", error="Denied."))
    text = Metrics(database, "acme").exposition()

    assert samples(text, "skill_load_total") == {
        ("s4", "workspace"): 5,
        ("s3", "workspace"): 4,
        ("other", "workspace"): 6,
    }
    assert samples(text, "skill_load_errors_total") == {("s4", "workspace"): 1, ("other", "workspace"): 1}
    assert samples(text, "skill_load_duration_seconds_count") == {("s4",): 5, ("s3",): 4, ("other",): 6}


def test_decisions_of_the_gate_are_counted_by_action_and_outcome(database):
    entries = [
        AuditEntry(actor="ann", action=action, outcome=outcome)
        for action, outcome in (("enable", "allowed"), ("enable", "allowed"), ("enable", "asked"), ("delete", "done"))
    ]
    write(database, audits=tuple(entries))
    assert samples(Metrics(database, "acme").exposition(), "skill_gate_total") == {
        ("enable", "allowed"): 2,
        ("enable", "asked"): 1,
        ("delete", "done"): 1,
    }


def test_approvals_and_sessions_are_told_as_they_are_now(database):
    with database.write() as connection:
        for slug, lifetime in (("a", 600), ("b", 600), ("c", -1)):
            approvals.ask(
                connection,
                ACME,
                action="enable",
                slug=slug,
                digest="d",
                requester="agent",
                session_id="",
                reason="",
                detail={},
                lifetime_seconds=lifetime,
            )
        opened = [
            sessions.open_session(
                connection,
                sessions.SessionViewer(owner=ACME, actor="ann", kind="person"),
                conversation_id=name,
                role="",
                model="",
                context_window=None,
                budget_max=100,
            )
            for name in ("one", "two")
        ]
        sessions.close_session(connection, sessions.SessionViewer(owner=ACME, actor="ann", kind="person"), opened[0].id)
    text = Metrics(database, "acme").exposition()

    states = {state: count for (state,), count in samples(text, "skill_approvals").items()}
    assert states == {"pending": 2, "approved": 0, "denied": 0, "expired": 1, "revoked": 0}
    assert samples(text, "skill_sessions_open") == {(): 1}


def test_events_are_counted_by_name(database):
    write(database, load("review"), missing("x"), EventEntry(name="approval_required", data={}, subject="review"))
    assert samples(Metrics(database, "acme").exposition(), "skill_events_total") == {
        ("skill_loaded",): 2,
        ("approval_required",): 1,
        ("approval_resolved",): 0,
        ("skills_state_changed",): 0,
        **{
            (name,): 0
            for name in (
                "run_started",
                "run_state_changed",
                "run_finished",
                "decision_made",
                "source_synced",
                "job_changed",
                "composition_changed",
                "optimization_changed",
                "catalog_changed",
                "settings_changed",
                "conversation_changed",
            )
        },
    }


def test_one_organization_does_not_see_the_figures_of_another(database):
    write(database, load("review"), audits=(AuditEntry(actor="a", action="enable", outcome="allowed"),))
    assert Metrics(database, "globex").exposition() == Metrics(database, "initech").exposition()
    assert samples(Metrics(database, "globex").exposition(), "skill_load_total") == {}


def test_counting_on_gives_the_same_as_counting_anew_in_any_process(database, database_url):
    kept = Metrics(database, "acme")
    for number in range(4):
        write(
            database,
            load(f"s{number % 2}", 0.001 * number + 0.000_1),
            missing("x"),
            audits=(AuditEntry(actor="a", action="enable", outcome="allowed"),),
        )
        other = open_database(database_url)
        try:
            assert kept.exposition() == Metrics(other, "acme").exposition() == kept.exposition()
        finally:
            other.close()


def test_a_count_that_broke_off_is_not_counted_twice(database, monkeypatch):
    kept = Metrics(database, "acme")
    write(database, load("review"))
    before = kept.exposition()

    def away(*_args: object, **_options: object) -> None:
        raise Unavailable("The database is away.", hint="")

    write(database, load("review"), audits=(AuditEntry(actor="a", action="enable", outcome="allowed"),))
    with monkeypatch.context() as patch:
        patch.setattr("prowess.storage.counts.decisions", away)
        with pytest.raises(Unavailable):
            kept.exposition()
    assert samples(before, "skill_load_total") == {("review", "workspace"): 1}
    assert samples(kept.exposition(), "skill_load_total") == {("review", "workspace"): 2}


def test_a_database_that_was_put_in_the_place_of_another_is_counted_from_its_beginning(tmp_path):
    database = DeferredDatabase(f"sqlite:///{tmp_path}/agents.db")
    write(database, load("review"), load("review"))
    kept = Metrics(database, "acme")
    assert samples(kept.exposition(), "skill_load_total") == {("review", "workspace"): 2}

    database.close()
    for file in tmp_path.glob("agents.db*"):
        file.unlink()
    write(database, load("deploy"))
    assert samples(kept.exposition(), "skill_load_total") == {("deploy", "workspace"): 1}
    database.close()


def test_every_metric_is_documented():
    families = list(text_string_to_metric_families(empty_metrics().decode()))
    assert len(families) == 9
    for family in families:
        name = f"{family.name}_total" if family.type == "counter" else family.name
        assert f"`{name}`" in PAGE.read_text()
