"""Sync between the devices of one person, through a folder, a git repository or a bucket that only stores files."""
