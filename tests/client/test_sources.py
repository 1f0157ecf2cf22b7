"""Sources through the client, over a real socket: the same values as the engine returns."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from prowess import open as opening
from prowess.client import Client
from prowess.errors import NotFound
from prowess.skill.package import Package
from prowess.sources.scripted import ScriptedFetcher, make_fetched

URL = "https://github.com/acme/runbooks.git"
CONFIG = {"repo": "acme/runbooks"}


def test_a_source_is_previewed_added_synced_and_removed(
    connect: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "---\nname: restart-db\ndescription: Restarts the database.\n---\n\nDrain it first.\n"
    packages = {"skills/restart-db": Package.of_texts("restart-db", {"SKILL.md": text})}
    upstream = ScriptedFetcher({URL: make_fetched(URL, packages)})
    monkeypatch.setattr(opening, "_fetch", upstream)
    client = connect()

    preview = client.sources.preview(source_type="github", config=CONFIG)
    source = client.sources.create("Runbooks", "github", CONFIG)
    synced = client.sources.sync(source.id)
    upstream.answers.clear()
    failed = client.sources.sync(source.id)
    changed = client.sources.update(source.id, name="Renamed", enabled=False)
    stale = client.sources.sync_stale()
    client.sources.delete(source.id, remove_skills=True)

    assert (preview.preview, [change.slug for change in preview.changes]) == (True, ["restart-db"])
    assert (synced.status, synced.counts, synced.source.last_sync_status) == ("ok", {"added": 1}, "ok")
    assert isinstance(failed.error, NotFound)
    assert (changed.name, changed.enabled, changed.config) == ("Renamed", False, CONFIG)
    assert stale == []
    assert client.sources.list() == []
    with pytest.raises(NotFound):
        client.sources.get(source.id)
    assert "restart-db" not in [card.slug for card in client.skills.cards()]
