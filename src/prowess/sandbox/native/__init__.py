"""Programs that run in processes of their own, without this one's environment, and confine what they run."""
