"""One handler for each kind of artifact."""
