"""Read eval files: one file for each format."""
