"""What a process does for the traces of others when it first writes its own."""

from __future__ import annotations

import logging

from prowess.errors import ProwessError
from prowess.storage.database import Connections
from prowess.traces.closing import close_interrupted
from prowess.traces.retention import DAYS, prune

log = logging.getLogger(__name__)


def tidy(records: Connections, days: int = DAYS) -> None:
    """Close what was interrupted and remove what is older than that. Never raises: traces that stay as they are harm no run."""
    try:
        close_interrupted(records)
        prune(records, days)
    except ProwessError as error:
        log.warning("Traces were not tidied: %s", error.message)
