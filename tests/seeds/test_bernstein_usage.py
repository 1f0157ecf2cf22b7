"""Bernstein: the record says which skills and references are used, which can be retired, and what the core set is."""

from __future__ import annotations

import pytest


@pytest.mark.anyio
async def test_the_report_tells_what_is_used_what_can_be_retired_and_the_core_set(place) -> None:
    for slug in ("tidy", "rare", "never"):
        place.skill(slug, files={"references/how.md": "How.", "references/why.md": "Why."})
    async with place.open() as prowess:
        for number in range(8):
            await prowess.sessions.open(f"chat-{number}")
            await prowess.load("tidy", session=f"chat-{number}")
        await prowess.load("tidy", reference="how.md", session="chat-0")
        await prowess.load("rare", session="chat-0")
        await prowess.load("missing")
    async with place.open() as prowess:
        report = await prowess.skills.usage()
        nothing = await prowess.skills.usage(days=0)
    assert report.skills == (("tidy", 9), ("rare", 1))
    assert (report.core, report.sessions, report.core_sessions) == (("tidy",), 8, 7 / 8)
    assert [(file.slug, file.file, file.loads) for file in report.files] == [("tidy", "how.md", 1)]
    assert [(file.slug, file.file) for file in report.unused_files] == [
        ("rare", "how.md"),
        ("rare", "why.md"),
        ("tidy", "why.md"),
    ]
    assert report.unused_skills == ("never",)
    assert (nothing.skills, nothing.core, nothing.core_sessions) == ((), (), None)
    assert set(nothing.unused_skills) == {"tidy", "rare", "never"}
