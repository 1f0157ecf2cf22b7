"""The pages of a workspace that a skill may read."""
