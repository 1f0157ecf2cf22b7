"""The one renderer: every place where a skill's text meets a prompt gets its blocks from here.

A block is a tag of ours, a comment line by which it is known, the text, and the end of the tag, each on lines of its own:

    <skill name="PostgreSQL Health Triage">
    <!-- postgres.health-triage · org · sha256:0f3a9c51e2b7 -->
    # PostgreSQL Health Triage
    …
    </skill>

The text is other people's: it stands there character for character, except that no tag of ours in it is left a tag, so
that between the beginning and the end of a block there is never another one of either. Blocks are known again by that.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence

from prowess.session.index import IndexPlan
from prowess.session.neutral import neutralised, one_line
from prowess.session.removal import BETWEEN, MARK, without_blocks

_DIGEST = re.compile(r"(?:sha256:)?([0-9a-f]{12})[0-9a-f]*\Z")


def skill_block(title: str, body: str, *, slug: str, origin: str, digest: str) -> str:
    """An enabled skill: its title in the tag, where it is from in the comment, and its body."""
    name = _attribute(title) or _attribute(slug) or "skill"
    about = [_comment(part) for part in (slug, origin)] + [f"sha256:{_short(digest, body)}"]
    return _block("skill", body, attributes=f' name="{name}"', comment=" · ".join(part for part in about if part))


def policies_block(text: str) -> str:
    """What the organization tells every agent."""
    return _block("policies", text)


def memory_block(text: str) -> str:
    """What is recalled about the conversation and its people."""
    return _block("memory", text)


def graph_block(text: str) -> str:
    """What a knowledge graph has to say."""
    return _block("graph_context", text)


def index_block(plan: IndexPlan) -> str:
    """The skills there are, as planned for a budget; nothing where there are none. The budget is of the text inside."""
    return _block("available_skills", plan.text) if plan.text else ""


def assemble(
    *, policies: str = "", memory: str = "", graph_context: str = "", skills: Sequence[str] = ()
) -> tuple[str, ...]:
    """The system blocks of a turn, in order: policies, memory, graph context, then the skills' blocks; no empty ones."""
    parts = ((policies_block, policies), (memory_block, memory), (graph_block, graph_context))
    return (*(block(text) for block, text in parts if text.strip()), *(block for block in skills if block))


def joined(blocks: Iterable[str]) -> str:
    """The blocks as one text, an empty line between two."""
    return BETWEEN.join(blocks)


def strip_blocks(text: str) -> str:
    """A prompt without the blocks that were put into it from here; all other text in it stays as it is.

    `prowess.session.removal` says what becomes of a block that is no longer whole.
    """
    return without_blocks(text)


def inject(text: str, blocks: Sequence[str]) -> str:
    """A prompt with exactly these blocks at its end, each once, and none of the older ones.

    Doing so twice is the same as once, and `strip_blocks` gives the text back as it was.
    """
    fresh = tuple(dict.fromkeys(block for block in blocks if block))
    rest = without_blocks(text, known=fresh)
    return joined([rest, *fresh] if rest else fresh)


def _block(tag: str, text: str, *, attributes: str = "", comment: str = MARK) -> str:
    body = neutralised(text)
    end = "" if not body or body.endswith("\n") else "\n"
    return f"<{tag}{attributes}>\n<!-- {comment} -->\n{body}{end}</{tag}>"


def _attribute(text: str) -> str:
    escaped = one_line(text).replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")
    return neutralised(escaped)


def _comment(text: str) -> str:
    """A part of the comment line: it can neither end the comment nor pass for another part."""
    return neutralised(one_line(text).replace("<", "&lt;").replace(">", "&gt;").replace("·", "-"))


def _short(digest: str, body: str) -> str:
    found = _DIGEST.match(digest)
    return found[1] if found else hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()[:12]
