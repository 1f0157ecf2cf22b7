"""The launcher of a command: it runs in its own process, without this one's environment."""
