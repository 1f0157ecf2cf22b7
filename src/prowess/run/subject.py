"""What the gate is asked about before a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from prowess.catalog.store import Store
from prowess.policy.subject import Subject
from prowess.run.allowance import allowance_of
from prowess.session.text import subject_of
from prowess.skill.model import Skill
from prowess.skill.needs import reach_of
from prowess.skill.outline import Outline


def subject_of_run(store: Store, skill: Skill, artifacts: Sequence[str] = ()) -> Subject:
    """The skill as it was read, with how far a run of it, or of these artifacts, reaches."""
    subject = subject_of(store, Outline.of(skill))
    asks_first = allowance_of(skill).asks_first
    return replace(subject, asks_first=asks_first, reach=reach_of(skill, tuple(artifacts)))
