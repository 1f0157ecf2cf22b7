"""Sync a source once for every few statements that it takes, killed just before that statement, and then sync again.

Started as a program of its own, which forks; prints one JSON line for each kill: what was found afterwards.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from prowess.engine import source_sync
from prowess.open import Prowess
from prowess.policy.actor import Actor
from prowess.settings import read_settings
from prowess.skill.package import Package
from prowess.sources.scripted import ScriptedFetcher, make_fetched

URL = "https://github.com/acme/runbooks.git"
OLD = {"same": "A.", "changed": "A.", "gone": "A."}
NEW = {"same": "A.", "changed": "B.", "new": "B."}


def open_engine(home: Path, bodies: dict[str, str]) -> Prowess:
    packages = {
        slug: Package.of_texts(slug, {"SKILL.md": f"---\nname: {slug}\ndescription: Is {slug}.\n---\n\n{body}\n"})
        for slug, body in bodies.items()
    }
    environment = {"HOME": str(home), "PROWESS_HOME": str(home / ".prowess"), "PROWESS_WORKSPACE": str(home)}
    environment |= {"PROWESS_SYSTEM_SKILLS": "off", "PROWESS_BACKGROUND": "off"}
    fetcher = ScriptedFetcher({URL: make_fetched(URL, packages)})
    actor = Actor(name="ann", organization="acme")
    return Prowess.open(settings=read_settings(environment), actor=actor, fetcher=fetcher)


async def sync(home: Path, bodies: dict[str, str]) -> dict[str, Any]:
    """Sync the only source, which is added if there is none; return what is there afterwards."""
    async with open_engine(home, bodies) as engine:
        found = await engine.sources.list()
        source = found[0] if found else await engine.sources.create("r", "github", {"repo": "acme/runbooks"})
        result = await engine.sources.sync(source.id)
        return {"status": result.status, **await look(engine)}


async def look(engine: Prowess) -> dict[str, Any]:
    skills = {card.slug: (await engine.skills.get(card.slug)).body.strip() for card in engine.catalog.cards()}
    [source] = await engine.sources.list()
    items = await engine.sources.items(source.id)
    digests = {slug: (await engine.skills.get(slug)).digest for slug in skills}
    return {
        "skills": skills,
        "agree": {slug: item.digest for slug, item in items.items()} == digests,
        "audit": (await engine.audit.verify()).ok,
    }


async def look_at(home: Path) -> dict[str, Any]:
    async with open_engine(home, NEW) as engine:
        return await look(engine)


def killed_at(home: Path, step: int) -> bool:
    """Sync in a child that is killed before its statement of this number; False if it has fewer."""
    child = os.fork()
    if child:
        return os.WIFSIGNALED(os.waitpid(child, 0)[1])
    seen = 0

    def count(*_: Any) -> None:
        nonlocal seen
        seen += 1
        if seen == step:
            os.kill(os.getpid(), signal.SIGKILL)

    sa.event.listen(sa.Engine, "before_cursor_execute", count)
    sa.event.listen(sa.Engine, "commit", count)
    asyncio.run(sync(home, NEW))
    os._exit(0)


def main(folder: Path, every: int) -> None:
    # A sync that was killed is forgotten at once, so that the next one need not wait.
    source_sync.LEASE_SECONDS = 0.001
    first = folder / "first"
    first.mkdir()
    child = os.fork()  # so that this process never has a database open when it forks
    if not child:
        asyncio.run(sync(first, OLD))
        os._exit(0)
    os.waitpid(child, 0)
    step = 1
    while True:
        home = folder / f"at-{step}"
        shutil.copytree(first, home)
        killed = killed_at(home, step)
        reader, writer = os.pipe()
        if not os.fork():
            report = {"step": step, "killed": killed, "after": asyncio.run(look_at(home))}
            report["healed"] = asyncio.run(sync(home, NEW))
            os.write(writer, json.dumps(report).encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as said:
            sys.stdout.write(said.read() + "\n")
            sys.stdout.flush()
        os.wait()
        shutil.rmtree(home)
        if not killed:
            return
        step += every


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
