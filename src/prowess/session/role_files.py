"""What is on disk for a role: a skill pack or a template, and the stamps by which a later change of it shows.

Nothing is read through a link below the root that is given. Paths come from `role_prompt`, which makes them from
fixed words and a role's name that fits its pattern.
"""

from __future__ import annotations

import os
import stat
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from prowess.errors import Invalid
from prowess.session.render import skill_block
from prowess.skill.filenames import find_skill_md
from prowess.skill.limits import Limits
from prowess.skill.package import Package
from prowess.skill.validate import accept
from prowess.storage.finding import read_refused
from prowess.storage.reading import open_folder, read_regular, snapshot_folder
from prowess.storage.stamps import Stamp, is_settled, stamp_of

TEMPLATE = "system_prompt.md"
_ABSENT: Stamp = (0, 0, 0, 0, 0)

RoleSource = Literal["pack", "template", "stub"]
Watched = tuple[tuple[str, Stamp], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was found for a role, before index and values: the pack's block, the template as written, or neither.

    `watched` is every place that the finding depends on; it holds while they all have their stamps, if `settled`.
    """

    source: RoleSource = "stub"
    text: str = ""
    location: str = ""
    digest: str = ""
    watched: Watched = ()
    settled: bool = True

    def holds(self) -> bool:
        """Whether everything is as it was read."""
        return self.settled and all(_stamp(place) == stamp for place, stamp in self.watched)


def read_pack(root: str, inside: str, origin: str, limits: Limits) -> Found:
    """The pack in the folder `inside` of the root, as a block; nothing where there is no SKILL.md.

    `Invalid`, with the place, for a pack that Prowess would not keep.
    """
    location = f"{root}/{inside}"
    watched = _watch(root, inside)
    if watched[-1][1] == _ABSENT:
        return Found(watched=watched)
    try:
        snapshot = snapshot_folder(location, limits, root=root)
        found = Found(watched=watched + snapshot.stamps, settled=snapshot.settled)
        return replace(found, **_block(snapshot.package, location, origin, limits))
    except OSError as error:
        raise read_refused(Path(location), error) from error
    except Invalid as error:
        raise Invalid(f"{location!r}: {error.message}", hint=error.hint, problems=error.problems) from error


def _block(package: Package, location: str, origin: str, limits: Limits) -> dict[str, Any]:
    """The fields of what was found; none for a folder that is no pack."""
    if find_skill_md(package) is None:
        return {}
    skill = accept(package, limits).skill
    if skill is None or not skill.body.strip():
        raise Invalid("There is no text for a prompt.", hint="Write the role below the frontmatter of SKILL.md.")
    digest = package.digest
    text = skill_block(skill.title, skill.body.strip("\n"), slug=skill.slug, origin=origin, digest=digest)
    return {"source": "pack", "text": text, "location": location, "digest": digest}


def read_template(root: str, inside: str, limits: Limits) -> Found:
    """The older template in the folder `inside` of the root, as it is written; nothing where there is none."""
    location = f"{root}/{inside}/{TEMPLATE}"
    began = time.time_ns()
    watched = _watch(root, f"{inside}/{TEMPLATE}")
    stamp = watched[-1][1]
    if stamp == _ABSENT:
        return Found(watched=watched)
    try:
        descriptor = open_folder(f"{root}/{inside}", root)
        try:
            data = read_regular(TEMPLATE, limits.skill_md_bytes + 1, descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise read_refused(Path(location), error) from error
    text = _text(data, location, limits.skill_md_bytes)
    settled = is_settled(stamp, began)
    return Found(source="template", text=text, location=location, watched=watched, settled=settled)


def _text(data: bytes, location: str, most: int) -> str:
    if len(data) > most:
        raise Invalid(f"{location!r} has more than {most:,} bytes, which is the limit.", hint="Make it shorter.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Invalid(f"{location!r} is not UTF-8 text.", hint="Save it as UTF-8.") from error


def _watch(root: str, inside: str) -> Watched:
    """The stamp of each part of the way from the root, up to the first that is not there; a link on it is refused."""
    watched: list[tuple[str, Stamp]] = []
    place = root
    for part in inside.split("/"):
        place = f"{place}/{part}"
        stamp = _stamp(place)
        if stat.S_ISLNK(stamp[4]):
            raise Invalid(
                f"{place!r} is a symbolic link; roles are not read through links.",
                hint="Put the files there themselves.",
            )
        watched.append((place, stamp))
        if stamp == _ABSENT:
            break
    return tuple(watched)


def _stamp(place: str) -> Stamp:
    try:
        return stamp_of(os.lstat(place))
    except (FileNotFoundError, NotADirectoryError):
        return _ABSENT
    except OSError as error:
        raise read_refused(Path(place), error) from error
