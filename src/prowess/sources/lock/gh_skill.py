"""Read what `gh skill` records. It has no lock file: it writes the source of a skill into the metadata of its SKILL.md.

    metadata:
      github-repo: https://github.com/owner/repo
      github-ref: refs/heads/main
      github-path: skills/pdf
      github-tree-sha: 5801be7a910e7d9e4929413b794ecc07c69a905f

So the installed SKILL.md is never the one of the source, and its files cannot be compared with the tree.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable

from prowess.skill.filenames import SKILL_MD
from prowess.skill.json_values import json_object
from prowess.skill.text.reader import read_document
from prowess.sources.lock.skills_lock import LockedSource

_MARK = b"github-tree-sha"
_HEAD_BYTES = 16 * 1024
"""How much of a file is read: its frontmatter cannot be longer."""
_REPOSITORY = re.compile(r"https://github\.com/([\w.-]+/[\w.-]+?)(?:\.git)?/?", re.ASCII)
_REF = re.compile(r"(?:refs/(?:heads|tags)/)?([\w./@+-]+)", re.ASCII)
_TREE = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def find_gh_skills(parents: Iterable[str], known: Collection[str]) -> dict[str, LockedSource]:
    """Return the skills below these folders that `gh skill` installed, by the name of their folder, but not those `known`."""
    found: dict[str, LockedSource] = {}
    for parent in parents:
        try:
            names = sorted(entry.name for entry in os.scandir(parent) if entry.is_dir(follow_symlinks=False))
        except OSError:
            continue
        for name in names:
            if name not in known and name not in found and (source := _read_source(f"{parent}/{name}/{SKILL_MD}")):
                found[name] = source
    return found


def _read_source(path: str) -> LockedSource | None:
    try:
        with open(path, "rb", opener=_open_plain) as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        return None
    # Nearly all skills end here: there may be thousands.
    if _MARK not in head:
        return None
    metadata = json_object(read_document(head).fields.get("metadata"))
    values = {key: str(metadata.get(f"github-{key}") or "") for key in ("repo", "pinned", "ref", "path", "tree-sha")}
    repository, tree = _REPOSITORY.fullmatch(values["repo"]), _TREE.fullmatch(values["tree-sha"])
    ref = _REF.fullmatch(values["pinned"] or values["ref"])
    if repository is None or tree is None or ref is None:
        return None
    folder = values["path"].removesuffix(SKILL_MD).strip("/")
    return LockedSource(
        source=repository[1],
        source_type="github",
        hash=tree[0],
        ref=ref[1],
        skill_path=f"{folder}/{SKILL_MD}" if folder else SKILL_MD,
        rewritten_by="gh skill",
    )


def _open_plain(name: str, flags: int) -> int:
    """Open a file, but no link, and wait for no writer of a pipe: a repository can bring both along."""
    return os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
