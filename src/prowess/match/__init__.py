"""Phase 1: from a message to the skills worth offering, ranked, with reasons, without a model call."""
