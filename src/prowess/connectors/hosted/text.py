"""A connector's skill as the gate and the prompt see it. Only its text is used: nothing that it declares takes effect."""

from __future__ import annotations

from typing import Any

from prowess.connectors.hosted.entry import HostedSkill, show_uri
from prowess.errors import Invalid, Refused
from prowess.policy.subject import Subject
from prowess.scan import scan_package
from prowess.session.text import SkillText
from prowess.skill.filenames import SKILL_MD
from prowess.skill.model import Provenance
from prowess.skill.needs import Needs
from prowess.skill.outline import ArtifactOutline, SkillOutline
from prowess.skill.package import File, FileEntry, Package
from prowess.skill.prompt_block import skill_block

SOURCE_TYPE = "connector"
MAX_FILE_BYTES = 256 * 1024
"""The most bytes of one file that an agent gets at once, as for a skill that is fetched live."""
_WIDENING = ("allowed-tools", "hooks", "mcp-servers", "model", "agent", "context")
"""Fields by which skills ask hosts for rights or settings. They are named on the card, and have no effect."""


def make_subject(skill: HostedSkill) -> Subject:
    """Return what the gate decides about, and what a person is shown, from the entry alone: no file is read before."""
    return Subject(
        slug=skill.slug,
        digest=skill.digest,
        title=skill.name,
        description=skill.description,
        scope="session",
        source="community",
        source_type=SOURCE_TYPE,
        origin=skill.origin,
        live=True,
        text=(
            "Not read yet. A skill of a connector is read when it is used. Read it first with "
            f"`prowess connector read {skill.connector} {skill.uri}`."
        ),
        chars=skill.main.size,
        manifest=_manifest(skill),
        requests=_requests(skill),
    )


def _manifest(skill: HostedSkill) -> tuple[FileEntry, ...]:
    files = sorted(skill.files, key=lambda file: file.path)
    return tuple(FileEntry(path=file.path, mode="0644", size=file.size, sha256=file.sha256) for file in files)


def _requests(skill: HostedSkill) -> tuple[str, ...]:
    widening = [name for name in _WIDENING if name in skill.frontmatter]
    return (
        f"to put instructions of the connector {skill.connector!r} into the prompt; they can make the agent call its tools",
        *([f"{', '.join(widening)} in its frontmatter, which have no effect"] if widening else []),
    )


def compose_hosted_text(skill: HostedSkill, main: bytes) -> SkillText:
    """Return the text that enters the prompt, tagged with the connector. `main` is the verified SKILL.md."""
    check_content(skill, SKILL_MD, main)
    text = decode_text(SKILL_MD, main).replace("\r\n", "\n").replace("\r", "\n")
    # The reader has compared the frontmatter, so its closing line is there.
    end = text.index("\n---", 2) + 1
    body = text[end:].partition("\n")[2]
    outline = SkillOutline(
        id="",
        slug=skill.slug,
        title=skill.name,
        description=skill.description,
        version="",
        tags=(),
        scope="session",
        location="",
        provenance=Provenance(source="community", source_type="marketplace", source_url=skill.origin),
        digest=skill.digest,
        manifest=_manifest(skill),
        allowed_tools=(),
        frontmatter=None,
        parts=(ArtifactOutline(id="", kind="instructions", name=SKILL_MD, path=SKILL_MD),),
        needs=Needs(),
    )
    origin = f"session, from {skill.origin}"
    block = skill_block(skill.name, body, slug=skill.slug, origin=origin, digest=skill.digest)
    return SkillText(outline=outline, subject=make_subject(skill), body=body, block=block, entry=skill.manifest)


def check_content(skill: HostedSkill, path: str, content: bytes) -> None:
    """Raise `Refused` if the security scan finds a danger in a file.

    The person who approved the skill saw its entry, not this text, so nobody has agreed to the danger.
    """
    found = scan_package(Package(name=skill.name, files=(File(path=path, content=content),)))
    danger: Any = next((finding for finding in found if finding.severity == "danger"), None)
    if danger is not None:
        raise Refused(
            f"The security scan found a danger in {path!r} of the skill {skill.slug!r}: {danger.message}",
            hint=f"A person can read it: `prowess connector read {skill.connector} {skill.uri}`.",
        )


def decode_text(path: str, content: bytes) -> str:
    """Return a file as text for an agent, or raise `Invalid` if it is binary or too long."""
    if len(content) > MAX_FILE_BYTES:
        raise Invalid(
            f"{show_uri(path)} has {len(content):,} bytes; an agent can read {MAX_FILE_BYTES:,} of a connector's skill.",
            hint="Work without this file.",
        )
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise Invalid(f"{show_uri(path)} is a binary file.", hint="Work without this file.") from None
