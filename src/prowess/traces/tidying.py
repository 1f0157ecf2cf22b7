"""What a process does for the traces of others when it first writes its own."""

from __future__ import annotations

import logging
from threading import Event

from prowess.errors import ProwessError
from prowess.storage.database import Connections
from prowess.traces.closing import close_interrupted
from prowess.traces.retention import DAYS, prune

log = logging.getLogger(__name__)


def tidy(records: Connections, days: int = DAYS, ended: Event | None = None) -> None:
    """Close what was interrupted and remove what is older than that. Never raises: traces that stay as they are harm no run.

    Once `ended` is set, no further connection is taken and nothing is said.
    """
    over = ended or Event()
    try:
        if not over.is_set():
            close_interrupted(records)
        if not over.is_set():
            prune(records, days, over)
    except ProwessError as error:
        if not over.is_set():
            log.warning("Traces were not tidied: %s", error.message)
