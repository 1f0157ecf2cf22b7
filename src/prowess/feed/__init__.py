"""Record events, and deliver them to subscribers in order."""
