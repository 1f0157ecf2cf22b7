"""Read text that people wrote: frontmatter, YAML, hidden characters."""
