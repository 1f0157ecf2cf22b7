"""Size limits for skills. Every reader checks against one `Limits` value before it does any work."""

from __future__ import annotations

import sys

from prowess.lazy_dataclass import dataclass

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits on what is read, generous enough for any ordinary skill."""

    # Checked before YAML is parsed: a block with 100,000 keys took 15 s, and 200,000 brackets crashed PyYAML's C
    # loader.
    frontmatter_bytes: int = 16 * KIB
    skill_md_bytes: int = MIB
    body_chars: int = 100_000
    file_bytes: int = 5 * MIB
    skill_bytes: int = 25 * MIB
    archive_bytes: int = 16 * MIB
    files: int = 1000
    depth: int = 8
    yaml_depth: int = 8
    # Package managers link the files of installed packages to their cache. In other folders a second name of a file may
    # lead to anything.
    hard_links: bool = False
    # Fields that Prowess has no meaning for are probably misspelt. A strict workspace refuses them.
    strict: bool = False


DEFAULT_PROMPT_CHARS = 16_000
"""How many characters the enabled skills of a session may take together, unless the policy says otherwise."""
MAX_INTENT_PATTERNS = 64
"""The maximum number of intent patterns in a skill."""

DEFAULT_LIMITS = Limits()
UNLIMITED = Limits(file_bytes=sys.maxsize, skill_bytes=sys.maxsize, files=sys.maxsize)
"""For packages built from others that were within their limits; a package is checked again before it is stored."""
