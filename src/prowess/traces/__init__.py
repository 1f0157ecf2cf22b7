"""Record what was run, how it ended and what it cost."""
