"""A program for the kill tests: writes without end and says after each write what was acknowledged."""

from __future__ import annotations

import itertools
import sys

from prowess.catalog.database_store import DatabaseStore
from prowess.skill.package import Package
from prowess.storage.database import open_database


def pack(slug: str, number: int) -> Package:
    text = f"---\nname: {slug}\ndescription: For {slug}.\n---\n\nBody {number}.\n"
    return Package.of_texts(slug, {"SKILL.md": text, "references/guide.md": f"Guide {number}. " * 500})


def say(slug: str, digest: str) -> None:
    sys.stdout.write(f"{slug} {digest}\n")
    sys.stdout.flush()


def write(url: str, worker: str) -> None:
    """Update one skill over and over, and import a handful of others every time."""
    store = DatabaseStore(open_database(url), scope="workspace")
    slug = f"updated-{worker}"
    kept = store.get_skill_by_name(slug)
    digest = kept.digest if kept else None
    start = len(store.versions(slug))
    for number in itertools.count(start):
        digest = store.save(pack(slug, number), expected=digest).digest
        say(slug, digest)
        imported = [pack(f"imported-{worker}-{number}-{place}", number) for place in range(3)]
        for saved in store.save_all(imported):
            say(saved.package.name, saved.package.digest)


write(sys.argv[1], sys.argv[2])
