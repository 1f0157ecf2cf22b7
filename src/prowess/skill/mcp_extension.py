"""The fields and sizes of a skill that hosts of the MCP skills extension accept."""

from __future__ import annotations

from typing import Any, cast

from prowess.patterns import lazy_pattern

FILES_LIMIT = 512
BYTES_LIMIT = 16_777_216

_NAME = lazy_pattern(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_NAME_LIMIT, _DESCRIPTION_LIMIT, _COMPATIBILITY_LIMIT = 64, 1024, 500


def has_valid_name(frontmatter: dict[str, Any]) -> bool:
    """Return True if name and description are valid by the rules of the MCP skills extension."""
    name, description = frontmatter.get("name"), frontmatter.get("description")
    return (
        isinstance(name, str)
        and len(name) <= _NAME_LIMIT
        and _NAME.fullmatch(name) is not None
        and isinstance(description, str)
        and bool(description.strip())
        and len(description) <= _DESCRIPTION_LIMIT
    )


def has_valid_fields(frontmatter: dict[str, Any]) -> bool:
    """Return True if the optional fields have the types of the standard.

    Some hosts reject a whole listing because of one invalid entry, so a skill that fails this check is not listed.
    """
    texts = (frontmatter.get(key, " ") for key in ("license", "allowed-tools", "compatibility"))
    metadata: Any = frontmatter.get("metadata", {})
    return (
        all(isinstance(text, str) for text in texts)
        and 0 < len(str(frontmatter.get("compatibility", " "))) <= _COMPATIBILITY_LIMIT
        and isinstance(metadata, dict)
        and all(isinstance(value, str) for value in cast("dict[str, Any]", metadata).values())
    )
