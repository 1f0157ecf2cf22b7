"""The launcher of a command: it runs in a process of its own, without this one's environment."""
