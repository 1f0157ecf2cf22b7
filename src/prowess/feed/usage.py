"""Report how much skills are used, from recorded loads, runs and prompt changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from prowess.storage import counts
from prowess.storage.clock import days_ago
from prowess.storage.database import Connections


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillUsage:
    """How often and when a skill was last loaded and run, and when it last entered or left a prompt; '' means never.

    Each artifact of a run counts.
    """

    loads: int = 0
    runs: int = 0
    last_loaded: str = ""
    last_run: str = ""
    last_enabled: str = ""

    @property
    def last(self) -> str:
        """When it was last used in any way; '' if never."""
        return max(self.last_loaded, self.last_run, self.last_enabled)


NEVER_USED = SkillUsage()


CORE_SHARE = 0.8
"""The skills that together have this share of all loads are the core set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileUsage:
    """How often a reference or script of a skill was loaded."""

    slug: str
    file: str
    loads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReport:
    """Which skills and files were loaded in the last days, and which were not.

    `core` are the fewest skills that have 80 % of all loads. Agents converge on a core set if it is small compared with
    `skills`; `core_sessions` is the share of sessions that loaded nothing else.
    """

    days: float
    loads: int
    sessions: int
    skills: tuple[tuple[str, int], ...]
    """Slug and loads of each skill that was loaded, most first."""
    core: tuple[str, ...]
    core_sessions: float | None
    files: tuple[FileUsage, ...]
    """References and scripts that were loaded, most first."""
    unused_skills: tuple[str, ...]
    """Skills that were not loaded, enabled or run."""
    unused_files: tuple[FileUsage, ...]
    """References and scripts of used skills that nobody loaded."""


def report_usage(
    loads: Iterable[tuple[str, str, tuple[str, ...]]],
    files: Mapping[str, Collection[str]],
    *,
    used: Collection[str],
    days: float,
) -> UsageReport:
    """Return the report of these loads (slug, session, files).

    `files` has the files of every skill in reach, and `used` the skills that were used in any way.
    """
    per_skill: Counter[str] = Counter()
    per_file: Counter[tuple[str, str]] = Counter()
    per_session: dict[str, set[str]] = {}
    for slug, session, loaded in loads:
        per_skill[slug] += 1
        per_file.update((slug, file) for file in loaded)
        if session:
            per_session.setdefault(session, set()).add(slug)
    ranked = sorted(per_skill.items(), key=lambda pair: (-pair[1], pair[0]))
    core = core_set(ranked)
    inside = sum(slugs <= set(core) for slugs in per_session.values())
    unused = [
        FileUsage(slug=slug, file=file, loads=0)
        for slug in sorted(files)
        if slug in per_skill
        for file in sorted(files[slug])
        if (slug, file) not in per_file
    ]
    return UsageReport(
        days=days,
        loads=per_skill.total(),
        sessions=len(per_session),
        skills=tuple(ranked),
        core=core,
        core_sessions=inside / len(per_session) if per_session else None,
        files=tuple(
            FileUsage(slug=slug, file=file, loads=many)
            for (slug, file), many in sorted(per_file.items(), key=lambda pair: (-pair[1], pair[0]))
        ),
        unused_skills=tuple(slug for slug in sorted(files) if slug not in used),
        unused_files=tuple(unused),
    )


def core_set(ranked: Sequence[tuple[str, int]]) -> tuple[str, ...]:
    """Return the first skills that together have `CORE_SHARE` of all loads."""
    total, sum_so_far, core = sum(many for _, many in ranked), 0, list[str]()
    for slug, many in ranked:
        if sum_so_far >= CORE_SHARE * total:
            break
        core.append(slug)
        sum_so_far += many
    return tuple(core)


def count_recent_uses(database: Connections, organization: str, *, days: float) -> dict[str, int]:
    """Return how often each skill was loaded, run, enabled or disabled in the last days, without failed loads. Blocking."""
    with database.read() as connection:
        return counts.recent_uses(connection, organization, since=days_ago(days))


def list_usage(database: Connections, organization: str) -> dict[str, SkillUsage]:
    """Return the usage of every skill that was ever used, by slug. Blocking."""
    used: dict[str, SkillUsage] = {}
    with database.read() as connection:
        for event, slug, many, last in counts.last_uses(connection, organization):
            before = used.get(slug, NEVER_USED)
            if event == counts.LOADED:
                used[slug] = replace(before, loads=many, last_loaded=last)
            elif event == counts.RAN:
                used[slug] = replace(before, runs=many, last_run=last)
            else:
                used[slug] = replace(before, last_enabled=last)
    return used
