"""The guarded HTTP client: every request that leaves this machine for a skill is checked before it is sent."""
