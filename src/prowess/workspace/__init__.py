"""The markdown pages of a workspace, which skills may read."""
