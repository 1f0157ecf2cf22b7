"""Compare installed files with what the lock files record."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from prowess.errors import ProwessError
from prowess.skill.package import FileEntry, compute_digest
from prowess.sources.install import Base, Place, is_left_out, look_at
from prowess.sources.installation import Installation
from prowess.sources.installed import KnownSkill
from prowess.sources.lock.prowess_lock import OWN_LOCK, InstalledSkill, Signature, folder_name
from prowess.sources.lock.skills_lock import matches_locked
from prowess.storage.files.skill_packages import read_folder

if TYPE_CHECKING:
    from prowess.sources.signature import ExpectedSigner

DifferenceKind = Literal[
    "changed", "missing", "extra", "unreadable", "link", "lock", "unlocked", "signature", "unknown"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One difference between an installed skill and its lock. `serious` is False for what only `--frozen` objects to."""

    kind: DifferenceKind
    path: str
    message: str
    serious: bool = True


_NOT_SIGNED = Difference(kind="signature", path="", message="not signed")


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedSkill:
    """The result for one skill."""

    name: str
    differences: tuple[Difference, ...] = ()
    signature: str = "absent"
    """`absent`, or who signed it."""
    source: str = ""
    state: str = ""
    """The commit that it is from, or what stands for it."""

    @property
    def ok(self) -> bool:
        """True if there is no serious difference."""
        return not any(difference.serious for difference in self.differences)

    def as_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {
            "name": self.name,
            "ok": self.ok,
            "source": self.source,
            "state": self.state,
            "signature": self.signature,
            "differences": [asdict(difference) for difference in self.differences],
        }


def verify(
    installation: Installation, names: Sequence[str] = (), signer: ExpectedSigner | None = None
) -> list[VerifiedSkill]:
    """Compare installed skills with the lock files. Changes nothing.

    Without names, folders next to them that no lock file records are reported, too. With `signer`, a skill that anyone else
    has signed, or nobody, differs.
    """
    skills = installation.find(names)
    found = [_verify_skill(installation, skill, signer) for skill in skills]
    if not names:
        broken = [Difference(kind="lock", path="", message=problem.message) for problem in installation.problems()]
        found += [VerifiedSkill(name=OWN_LOCK, differences=tuple(broken))] if broken else []
        found += _find_unlocked(installation, {skill.folder for skill in skills})
    return found


def _verify_skill(installation: Installation, skill: KnownSkill, expected: ExpectedSigner | None) -> VerifiedSkill:
    entry = skill.entry
    if entry is None:
        found = _verify_locked(installation, skill)
        return found if expected is None else replace(found, differences=(*found.differences, _NOT_SIGNED))
    differences: list[Difference] = []
    if entry.pending:
        message = "a change was interrupted; run `prowess update` or `prowess remove`"
        differences.append(Difference(kind="lock", path="", message=message))
    # Someone who works on a skill of their own edits the installed files as well, so that is only noted.
    is_own = entry.pin.type == "local"
    for place in installation.places(skill):
        differences += _verify_place(place, installation.base, skill.folder, entry, is_own=is_own)
    if skill.locked is None:
        differences.append(_note("lock", "not in the lock file of the skills CLI"))
    elif not installation.base.is_user and skill.locked.hash != entry.computed_hash:
        differences.append(_note("lock", "the lock file of the skills CLI has another hash"))
    signer, wrong = _verify_signature(entry, expected)
    return VerifiedSkill(
        name=skill.name,
        differences=(*differences, *wrong),
        signature=signer,
        source=entry.pin.reference or entry.pin.source,
        state=entry.pin.state,
    )


def _verify_place(place: Place, base: Base, folder: str, entry: InstalledSkill, *, is_own: bool) -> list[Difference]:
    path_text = _shown(place.path, base)
    if not os.path.lexists(place.path):
        return [Difference(kind="missing", path=path_text, message="not there")]
    if place.link:
        state = look_at(place, base, folder, known=entry.digest)
        return [] if state == "ours" else [Difference(kind="link", path=path_text, message="not the link to the skill")]
    try:
        package = read_folder(place.path)
    except ProwessError as error:
        return [Difference(kind="unreadable", path=path_text, message=error.message)]
    return [
        Difference(kind=kind, path=f"{path_text}/{path}", message=message, serious=not is_own)
        for kind, path, message in compare(entry.manifest, package.manifest)
    ]


def compare(
    before: Sequence[FileEntry], after: Sequence[FileEntry]
) -> list[tuple[Literal["changed", "missing", "extra"], str, str]]:
    """Return which files changed, are missing or came on top."""
    old, new = ({entry.path: entry for entry in manifest} for manifest in (before, after))
    found: list[tuple[Literal["changed", "missing", "extra"], str, str]] = []
    for path in sorted({*old, *new}):
        if path not in new:
            found.append(("missing", path, "not there"))
        elif path not in old:
            found.append(("extra", path, "not in the lock file"))
        elif old[path].sha256 != new[path].sha256:
            found.append(("changed", path, f"sha256 {new[path].sha256[:12]}, locked {old[path].sha256[:12]}"))
        elif old[path] != new[path]:
            found.append(("changed", path, f"mode {new[path].mode}, locked {old[path].mode}"))
    return found


def _verify_signature(entry: InstalledSkill, expected: ExpectedSigner | None) -> tuple[str, list[Difference]]:
    if entry.signature is None:
        return "absent", [_NOT_SIGNED] if expected else []
    # Anyone who can change the files can change the lock file. Only these exact files make the digest that was signed.
    if compute_digest(entry.source_manifest) != entry.source_digest or not all(map(is_left_out, entry.left_out)):
        message = "the signature does not cover the files in the lock file; run `prowess update`"
        return "wrong", [Difference(kind="signature", path="", message=message)]
    try:
        if expected is None:
            return check_signature(entry.signature, entry.source_digest), []
        from prowess.sources.signature import verify_signer

        return verify_signer(entry.source_digest, read_signature(entry.signature), expected).identity, []
    except ProwessError as error:
        return "wrong", [Difference(kind="signature", path="", message=error.message)]


def check_signature(signature: Signature, digest: str) -> str:
    """Return who signed the files with this digest; raise `Refused` or `Invalid` for a signature that is not valid."""
    from prowess.sources.signature import kind_of, verify

    text = read_signature(signature)
    if kind_of(text) != "ed25519":
        return "an unverified signer (Sigstore bundle)"
    return verify(digest, text).identity


def read_signature(signature: Signature) -> bytes:
    """Return the bytes of a recorded signature; b'' if they are not base64."""
    try:
        return base64.b64decode(signature.text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _verify_locked(installation: Installation, skill: KnownSkill) -> VerifiedSkill:
    """Compare a skill that the skills CLI installed with the one hash that its lock file has. `gh skill` has none."""
    base, locked = installation.base, skill.locked
    differences: list[Difference] = []
    folders = [place for place in installation.places(skill) if not place.path.is_symlink()]
    if locked is None or not folders or not os.path.lexists(folders[0].path):
        path = _shown(base.shared / skill.folder, base)
        differences.append(Difference(kind="missing", path=path, message="not there"))
    else:
        matches = matches_locked(locked, folders[0].path)
        path_text = _shown(folders[0].path, base)
        if locked.rewritten_by:
            message = f"`{locked.rewritten_by}` changed its SKILL.md, so that it cannot be compared"
            differences.append(_note("unknown", message, path_text))
        elif matches is None:
            differences.append(
                _note("unknown", "the lock file of the skills CLI has no hash that can be compared", path_text)
            )
        elif not matches:
            message = "files differ from the lock file of the skills CLI"
            differences.append(Difference(kind="changed", path=path_text, message=message))
        tool = f"`{locked.rewritten_by}`" if locked.rewritten_by else "the skills CLI"
        note = f"installed by {tool}, without a digest of each file; `prowess update` records them"
        differences.append(_note("lock", note))
    return VerifiedSkill(name=skill.name, differences=tuple(differences), source=locked.source if locked else "")


def _find_unlocked(installation: Installation, known: Collection[str]) -> list[VerifiedSkill]:
    shared = installation.base.shared
    try:
        names = sorted(entry.name for entry in os.scandir(shared) if entry.is_dir() and not entry.name.startswith("."))
    except OSError:
        return []
    return [
        VerifiedSkill(
            name=name,
            differences=(_note("unlocked", "not in any lock file", _shown(shared / name, installation.base)),),
        )
        for name in names
        if folder_name(name) not in known
    ]


def _note(kind: DifferenceKind, message: str, path: str = "") -> Difference:
    return Difference(kind=kind, path=path, message=message, serious=False)


def _shown(path: Path, base: Base) -> str:
    return str(path.relative_to(base.root)) if path.is_relative_to(base.root) else str(path)
