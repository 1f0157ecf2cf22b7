"""Where skills live, and which one wins."""
