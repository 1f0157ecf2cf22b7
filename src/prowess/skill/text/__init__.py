"""Reading the text that people wrote: frontmatter, YAML, hidden characters."""
