"""The skill under evaluation: as the catalog serves it, as it lies at a path, or as an older version of it.

A skill that the catalog does not serve gets its own catalog in memory. It passes the same gate with its own digest: no
version runs that nobody accepted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from prowess.authoring.evals.case import EvalSuite
from prowess.authoring.evals.formats.suite import read_suite
from prowess.authoring.evals.plan import EvalPlan
from prowess.catalog.catalog import Catalog
from prowess.catalog.importer import check_paths
from prowess.catalog.memory_store import MemoryStore
from prowess.engine.context import Context, check_type
from prowess.engine.skill_reader import read_package
from prowess.errors import Invalid, NotFound, Refused
from prowess.skill.filenames import has_marker, is_marker, looks_like_skill
from prowess.skill.model import Skill
from prowess.skill.package import Package

_SHORTEST_DIGEST = 6
_EVAL_FOLDER = "evals/"
_EVAL_SUFFIXES = (".json", ".jsonl", ".yaml", ".yml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """Exactly one version of a skill, with the context in which it runs."""

    skill: Skill
    package: Package
    context: Context
    version: int | None = None

    @property
    def content_digest(self) -> str:
        """The digest without eval files: a case that is added or changed does not change the results of others."""
        return self.package.without(path for path in self.package.paths if path.startswith(_EVAL_FOLDER)).digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The skill to evaluate and its cases. `own` is True if the cases are part of the skill's files."""

    variant: Variant
    suite: EvalSuite
    own: bool


def find_subject(context: Context, plan: EvalPlan) -> Subject:
    """Return the skill and the cases of a plan. Blocking.

    Raise `NotFound` for an unknown skill or file, and `Invalid` if a path does not lead to exactly one skill.
    """
    check_type(plan, EvalPlan, "Pass EvalPlan(target=SLUG).")
    path = Path(plan.target)
    if context.actor.is_remote:
        if "/" in plan.target:
            raise Refused("Over HTTP, only skills can be evaluated, not files.", hint="Name a skill by its slug.")
        return _own(_from_catalog(context, plan.target))
    if _is_eval_file(path):
        suite = read_suite(path)
        return Subject(variant=_of_file(context, path, plan.skill or suite.skill), suite=suite, own=False)
    if "/" in plan.target or plan.target.startswith("."):
        return _own(_from_path(context, path))
    try:
        return _own(_from_catalog(context, plan.target))
    except NotFound:
        if not path.exists():
            raise
        return _own(_from_path(context, path))


def find_version(context: Context, slug: str, wanted_version: str) -> Variant:
    """Return an older version of a skill by its number, or by at least six characters of its digest. Blocking."""
    store, versions = context.catalog.history(slug)
    name = versions[-1].slug
    if wanted_version.isdecimal() and len(wanted_version) < _SHORTEST_DIGEST:
        found = [version for version in versions if version.number == int(wanted_version)]
    else:
        digest = wanted_version.removeprefix("sha256:").lower()
        found = [
            version for version in versions if len(digest) >= _SHORTEST_DIGEST and version.digest.startswith(digest)
        ]
    if not found:
        raise NotFound(
            f"{name!r} has no version {wanted_version[:80]!r}.", hint=f"`prowess history {name}` lists its versions."
        )
    chosen = found[-1]
    return replace(_kept_aside(context, store.version_package(name, chosen.number)), version=chosen.number)


def _own(variant: Variant) -> Subject:
    files = {file.path: file.content for file in variant.package.files}
    return Subject(variant=variant, suite=read_suite(files, variant.skill.slug), own=True)


def _from_catalog(context: Context, slug: str) -> Variant:
    skill, package = read_package(context, slug)
    return Variant(skill=skill, package=package, context=context)


def _from_path(context: Context, path: Path) -> Variant:
    checked = list(check_paths([path], "prowess", context.resources.limits))
    readings = [item.report.reading for item in checked if item.ok and item.report and item.report.reading]
    if len(readings) != 1:
        problems = [problem for item in checked for problem in item.problems if problem.severity == "error"]
        many = f"has {len(readings)} skills" if readings else "has no valid skill"
        raise Invalid(f"{str(path)!r} {many}.", hint="Give the folder of one skill.", problems=problems)
    return _of_package(context, readings[0].package)


def _of_package(context: Context, package: Package) -> Variant:
    """Return the skill of these files: the one that the catalog serves, if it is the same."""
    aside = _kept_aside(context, package)
    try:
        served = _from_catalog(context, aside.skill.slug)
    except NotFound:
        return aside
    return served if served.package.digest == package.digest else aside


def _kept_aside(context: Context, package: Package) -> Variant:
    store = MemoryStore("session")
    [saved] = store.save_all([package])
    if saved.skill is None:
        raise saved.error or Invalid(f"{package.name!r} is not a valid skill.", hint="Run `prowess validate`.")
    catalog = Catalog([store], context.catalog.scans)
    # Only what reads skills is new; models, sandboxes and recorders stay shared.
    resources = replace(context.resources, catalog=catalog)
    return Variant(skill=saved.skill, package=package, context=Context(opened=resources, actor=context.actor))


def _is_eval_file(path: Path) -> bool:
    if not path.is_file() or not path.name.lower().endswith(_EVAL_SUFFIXES) or is_marker(path.name):
        return False
    return not looks_like_skill(path.name, path.read_bytes())


def _of_file(context: Context, path: Path, named: str) -> Variant:
    """Return the skill that an eval file is about: the named one, or the one around it."""
    folder = path.absolute().parent
    folders: Sequence[Path] = (folder, folder.parent) if folder.name == "evals" else (folder,)
    if named:
        return _from_catalog(context, named)
    for one in folders:
        if has_marker(child.name for child in one.iterdir()):
            return _from_path(context, one)
    raise Invalid(f"{str(path)!r} does not name a skill.", hint="Name it with --skill SLUG.")
