"""The score of a skill, and reading scores from a SQLite file without SQLAlchemy: listing skills needs nothing else of it."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from prowess.lazy_dataclass import dataclass
from prowess.storage.accepted import query_file
from prowess.storage.clock import now

_SCORES = (
    "SELECT skill_slug, skill_digest, created_at, run_id, score, detail FROM eval_scores WHERE organization_id = ?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillScore:
    """The score of exactly one version of a skill, from 0 to 100, and what it is made of."""

    organization_id: str = ""
    skill_slug: str
    skill_digest: str
    created_at: str = field(default_factory=now)
    run_id: str
    score: float
    detail: dict[str, Any]
    """`pass_rate`, `cases`, `models` and `trigger_f1`, which is None without trigger queries."""

    @property
    def text(self) -> str:
        """The score with its parts, in one line."""
        cases, rate, triggers = (self.detail.get(name) for name in ("cases", "pass_rate", "trigger_f1"))
        parts = [f"{rate['mean']:.0%} of {cases} case{'s' if cases != 1 else ''} pass"] if rate else []
        parts += [] if triggers is None else [f"trigger F1 {triggers:.2f}"]
        return f"{self.score:.0f} of 100 ({', '.join(parts)})"

    def as_json(self) -> dict[str, Any]:
        """Return what people need to know as plain JSON."""
        return {"score": self.score, "at": self.created_at, "run": self.run_id, **self.detail}


def read_file_scores(path: str, organization: str) -> list[SkillScore] | None:
    """Return the scores of an organization; None if `query_file` cannot read them."""
    read = query_file(path, (_SCORES, (organization,)))
    if read is None:
        return None
    [rows] = read
    if not rows:
        return []
    from prowess.storage.rows import (
        decode_object,
    )  # imports the driver, which a list of skills without scores does not need

    return [
        SkillScore(
            organization_id=organization,
            skill_slug=slug,
            skill_digest=digest,
            created_at=at,
            run_id=run,
            score=score,
            detail=decode_object(detail, f"The detail of the score of the skill {slug!r}"),
        )
        for slug, digest, at, run, score, detail in rows
    ]
