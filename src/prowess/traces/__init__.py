"""What was run, what came of it and what it cost."""
