"""A store of its own, with the skills of an organization."""

from prowess.catalog.memory_store import MemoryStore
from prowess.plugins import Plugin
from prowess.skill.package import Package

TEXT = """---
name: house-style
description: Words and spellings that the house agrees on. Use when a text goes out to customers.
---

# House style

Say what happened, then what to do.
"""

store = MemoryStore("org")
store.save(Package.of_texts("house-style", {"SKILL.md": TEXT}))
plugin = Plugin(name="shelf", stores=(store,))
