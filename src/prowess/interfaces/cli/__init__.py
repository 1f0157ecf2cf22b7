"""The command line."""

from __future__ import annotations

import signal


def run() -> None:
    """Run the command line and exit the process. Ctrl-C while its modules are imported prints no traceback."""
    # For a background job of a script, the shell has SIGINT ignored, and it stays so.
    handled = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if handled:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from prowess.interfaces.cli import main

    if handled:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    main.run()
