"""Models: asking one, whoever serves it, within limits."""
