"""What the matching benchmarks are fed with: retrieval sets, messages, and cards without number."""
