"""Read and write skill files on disk safely."""
