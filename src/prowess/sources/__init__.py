"""Where skills come from: repositories, addresses, registries, and the files that record what was installed."""
