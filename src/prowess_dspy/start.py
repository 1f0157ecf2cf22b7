"""The start of the process: isolate it, import DSPy, then serve."""

from __future__ import annotations

import gc
import logging
import os
import sys

from prowess_dspy import isolation


def main() -> None:
    """Serve until the input ends or a shutdown is asked for. Does not return."""
    reader, writer = isolation.claim_pipes()
    isolation.prepare_environment()
    gc.disable()  # collecting while DSPy is imported finds nothing, and takes a quarter of the time
    # DSPy reads the environment, and prints, while it is imported.
    import dspy

    from prowess_dspy.adjustments import adjust_dspy
    from prowess_dspy.channel import Channel
    from prowess_dspy.server import Server

    adjust_dspy()
    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)
    logging.getLogger("dspy").setLevel(logging.CRITICAL)
    gc.freeze()
    gc.enable()
    isolation.refuse_network_and_processes()
    isolation.refuse_files()
    Server(Channel(reader, writer)).serve()
    sys.stderr.flush()
    os._exit(0)  # threads may be waiting for answers that no longer come
