"""Ask language models of any provider, within time, retry and rate limits."""
