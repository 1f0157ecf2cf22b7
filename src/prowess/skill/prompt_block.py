"""The block of a skill in a prompt: which of its texts enter, in which order, and the lines around them.

The length of this block is the size of a skill. The budget of a session counts it, and lists and events show it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from prowess.patterns import lazy_pattern
from prowess.skill.kinds import KINDS, Artifact, Kind, kind_info
from prowess.skill.model import Provenance, Scope, Skill
from prowess.skill.text.prompt_tags import to_one_line, to_prompt_text

BLOCK_MARK = "prowess"
"""The comment of blocks that do not belong to a skill."""

_DIGEST_PATTERN = lazy_pattern(r"(?:sha256:)?([0-9a-f]{12})[0-9a-f]*\Z")


def prompt_chars(skill: Skill, scope: Scope, provenance: Provenance | None = None) -> int:
    """Return how many characters a skill of this scope takes in a prompt; 0 if none of its texts enters one.

    `provenance` is where it came from as it was recorded, if it was.
    """
    inserted = [artifact for artifact in skill.artifacts if kind_info(artifact.kind).in_prompt]
    if not inserted:
        return 0
    body = join_texts(inserted)
    origin = describe_origin(scope, provenance) if provenance else scope
    return len(skill_block(skill.title, body, slug=skill.slug, origin=origin, digest=skill.digest))


def inserted_kinds(kinds: Iterable[Kind]) -> tuple[Kind, ...]:
    """Return the kinds whose texts enter the prompt, given those that a skill has; () if it has none of them."""
    found = tuple(kind.name for kind in KINDS.values() if kind.in_prompt)
    return () if set(kinds).isdisjoint(found) else found


def join_texts(artifacts: Sequence[Artifact]) -> str:
    """Join the texts of the default variants, instructions first."""
    # The text is the same for every model: variants are chosen only when an artifact runs.
    chosen = [artifact for artifact in artifacts if artifact.variant is None] or list(artifacts)
    in_order = sorted(chosen, key=lambda artifact: artifact.kind != "instructions")
    return "\n\n".join(artifact.content.strip("\n") for artifact in in_order)


def describe_origin(scope: Scope, provenance: Provenance) -> str:
    """Describe where a skill is from, for a model and a person: its scope, and its address if it came from elsewhere."""
    return f"{scope}, from {provenance.source_url}" if provenance.source_url else scope


def skill_block(title: str, body: str, *, slug: str, origin: str, digest: str) -> str:
    """Render an enabled skill: its title in the tag, its origin in the comment, and its body."""
    name = _escape_attribute(title) or _escape_attribute(slug) or "skill"
    about = [_escape_comment(part) for part in (slug, origin)] + [f"sha256:{_short_digest(digest, body)}"]
    return render_block("skill", body, attributes=f' name="{name}"', comment=" · ".join(part for part in about if part))


def render_block(tag: str, text: str, *, attributes: str = "", comment: str = BLOCK_MARK) -> str:
    """Render one of our blocks. Tags of ours in the text are neutralized."""
    body = to_prompt_text(text)
    # The closing tag must start a line; otherwise it would not be found again.
    end = "" if not body or body.endswith("\n") else "\n"
    return f"<{tag}{attributes}>\n<!-- {comment} -->\n{body}{end}</{tag}>"


def _escape_attribute(text: str) -> str:
    escaped = to_one_line(text).replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")
    return to_prompt_text(escaped)


def _escape_comment(text: str) -> str:
    """Escape a part of the comment line, so that it cannot end the comment or look like another part."""
    return to_prompt_text(to_one_line(text).replace("<", "&lt;").replace(">", "&gt;").replace("·", "-"))


def _short_digest(digest: str, body: str) -> str:
    found = _DIGEST_PATTERN.match(digest)
    # A block without a digest in its comment would not be recognized when it is to be removed.
    return found[1] if found else hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()[:12]
