"""The DSPy sidecar, seen from here: its environment, its process, and the messages between it and us."""
