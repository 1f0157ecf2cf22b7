"""One page of a workspace: a markdown file, and what it says about itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from prowess.skill.text.body import first_heading
from prowess.skill.text.fields import as_list
from prowess.skill.text.reader import read_document
from prowess.workspace.links import Link, links_of

_MOST_WORDS = 64
"""So many tags or aliases a page may have."""
_LONGEST = 200
"""So many characters a slug, title, type or tag may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page as it was read. `path` is its file below the workspace; `content` is its text without the frontmatter."""

    path: str
    slug: str
    title: str
    type: str = ""
    tags: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()
    fields: dict[str, Any] = field(default_factory=dict[str, Any])
    content: str = ""

    @property
    def card(self) -> dict[str, Any]:
        """What a list shows of it."""
        return {"slug": self.slug, "title": self.title, "type": self.type, "tags": list(self.tags), "path": self.path}

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return {**self.card, "fields": self.fields, "content": self.content}


def read_page(path: str, data: bytes) -> Page:
    """The page that a file holds. Nothing makes it raise.

    Its frontmatter gives slug, title, type, tags and aliases. Without them the slug is the path without its ending, the title
    the first heading or the file's name, and the type the name of the folder that it lies in.
    """
    document = read_document(data)
    fields = dict(document.fields)
    place = PurePosixPath(path)
    words = place.stem.replace("-", " ").replace("_", " ")
    return Page(
        path=path,
        slug=_text(fields.get("slug")).strip("/") or str(place.with_suffix("")),
        title=_text(fields.get("title")) or _text(first_heading(document.body)) or words,
        type=_text(fields.get("type")) or place.parent.name,
        tags=_words(fields.get("tags")),
        aliases=_words(fields.get("aliases")),
        links=links_of(document.body),
        fields=fields,
        content=document.body,
    )


def _text(value: Any) -> str:
    return " ".join(value.split())[:_LONGEST] if isinstance(value, str) else ""


def _words(value: Any) -> tuple[str, ...]:
    """A list of words, or one text with commas; each once."""
    found = (_text(word).removeprefix("#") for word in as_list(value))
    return tuple(dict.fromkeys(word for word in found if word))[:_MOST_WORDS]
