"""Start `prowess serve` again and again without importing it each time: one line of JSON on stdin for each start.

A line has the arguments and the environment of a command; the process id of a fork that runs it is printed. The forks
begin before anything is opened, so a killed one is as dead as any process.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
from importlib import import_module

# What a server imports before its first request, with it, and when it begins with its jobs.
MODULES = (
    "Stemmer",
    "alembic",
    "prowess.catalog.database_store",
    "prowess.engine.marketplace",
    "prowess.engine.matcher",
    "prowess.engine.people",
    "prowess.engine.skills",
    "prowess.engine.sources",
    "prowess.feed.event_feed",
    "prowess.feed.sqlite_wakeups",
    "prowess.interfaces.cli.commands.serve",
    "prowess.interfaces.listener",
    "prowess.interfaces.server",
    "prowess.jobs.jobs",
    "prowess.jobs.worker",
    "prowess.jobs.workflows",
    "prowess.policy.tokens",
    "prowess.session.admission",
    "prowess.skill.forms.native",
    "prowess.skill.profiles.table",
    "prowess.sources.system_skills",
    "prowess.storage.database",
    "prowess.storage.sqlite_dialects",
    "psycopg",
    "sqlalchemy.dialects.postgresql.psycopg",
    "uvicorn.lifespan.on",
    "uvicorn.loops.asyncio",
    "uvicorn.protocols.http.httptools_impl",
)


def serve(arguments: list[str], environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    sys.argv = ["prowess", *arguments]
    from prowess.interfaces.cli.main import run

    run()


if __name__ == "__main__":
    for module in MODULES:
        import_module(module)
    gc.freeze()  # or the first collection in each fork would copy what was imported
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            sys.stdin.close()
            serve(**json.loads(line))
            sys.exit(0)
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()
