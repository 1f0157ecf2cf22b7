"""Durable background work: runs and batches that survive a crash, and schedules. Needs the extra `jobs`."""
