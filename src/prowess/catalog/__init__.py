"""Store skills, and decide which one is served if several have the same slug."""
