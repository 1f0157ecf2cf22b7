"""Fitting a skill to a profile: names, texts, frontmatter and size, each in its own file."""
