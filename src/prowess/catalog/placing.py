"""Where a skill goes in a folder of skills, such that it is found there again as the same skill."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

from prowess.catalog.decide import accepted
from prowess.errors import Conflict
from prowess.skill.borders import has_marker, looks_like_skill
from prowess.skill.companions import choose_companions, companion_ids, function_files
from prowess.skill.forms import read_package, write_package
from prowess.skill.forms.form import Reading
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.package import File, Package
from prowess.skill.validate import accept

_TRIES = 1000


def as_kept(reading: Reading, limits: Limits = DEFAULT_LIMITS) -> Reading:
    """The reading itself if a folder of its files is found again; else of the same skill in the native form."""
    skill, package = accepted(reading)
    if _keeps_slug(package, skill.name, skill.slug, limits):
        return reading
    return accept(write_package(skill, package, "native", limits=limits).package, limits)


def _found_as(package: Package, name: str) -> Package | None:
    """What would be found in a folder of that name that holds these files; None if not all of them would be."""
    top = [file for file in package.files if "/" not in file.path]
    if has_marker(file.path for file in top):
        return Package(name=name, files=package.files)
    alone = [file for file in top if looks_like_skill(file.path, file.content)]
    if len(alone) != 1:
        return None
    found = {alone[0].path, *_companions(package, alone[0])}
    return Package(name=alone[0].path.rpartition(".")[0], files=package.files) if found == {*package.paths} else None


def _companions(package: Package, descriptor: File) -> Iterator[str]:
    for registry, wanted in companion_ids(descriptor.path, descriptor.content).items():
        prefix = registry + "/"
        there = {file.path.removeprefix(prefix): file.content for file in package.files if file.path.startswith(prefix)}
        for name in choose_companions(registry, wanted, there, there.__getitem__):
            yield prefix + name
    functions = function_files(descriptor.path, descriptor.content)
    yield from [path for path in functions if package.get(path) is not None][:1]


def free_place(reading: Reading, root: Path, limits: Limits = DEFAULT_LIMITS) -> Path:
    """A folder that is free and in which the skill keeps its slug: best its name, then its whole slug, then more."""
    skill, package = accepted(reading)
    for path in islice(_candidates(skill.slug), _TRIES):
        target = root / path
        if not os.path.lexists(target) and _keeps_slug(package, target.name, skill.slug, limits):
            return target
    raise Conflict(f"There is no free place for {skill.slug!r} in {str(root)!r}.", hint="Choose another slug.")


def _candidates(slug: str) -> Iterator[str]:
    namespace, _, name = slug.rpartition(".")
    yield name
    yield slug
    for number in count(2):
        yield f"{slug}-{number}"
        yield f"{namespace or 'more'}-{number}/{name}"


def _keeps_slug(package: Package, name: str, slug: str, limits: Limits) -> bool:
    found = _found_as(package, name)
    if found is None:
        return False
    skill = read_package(found, limits).skill if found.name != package.name else None
    return found.name == package.name or (skill is not None and skill.slug == slug)
