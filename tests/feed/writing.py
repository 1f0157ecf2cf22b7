"""A program for the tests of delivery: several threads that write events, each in a transaction of its own."""

from __future__ import annotations

import sys
import threading

from prowess.feed.event_feed import EventFeed
from prowess.storage import ledger
from prowess.storage.database import open_database
from prowess.storage.ledger import EventEntry


def write(url: str, organization: str, process: str, threads: int, events: int) -> None:
    database = open_database(url)
    feed = EventFeed(database, organization)

    def work(thread: int) -> None:
        for number in range(events):
            entry = EventEntry(name="skill_loaded", data={"note": [process, thread, number]})
            with database.write() as connection:
                ledger.append(connection, organization, events=[entry])
            feed.wake()

    writers = [threading.Thread(target=work, args=(thread,)) for thread in range(threads)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    feed.close()
    database.close()


write(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
