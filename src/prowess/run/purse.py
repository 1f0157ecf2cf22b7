"""What one run may use up, together with all runs of other skills that its code starts."""

from __future__ import annotations

from dataclasses import dataclass

from prowess.errors import Invalid

MOST_QUESTIONS = 100
"""How many questions the code of one run may ask models, by itself and by the skills that it runs."""


@dataclass(slots=True, kw_only=True)
class Purse:
    """What one run of a skill may cost by the skill's own word, in US dollars, and what it has cost or may yet.

    What it holds, the purse of the run that started it holds as well, and that has to have room for it.
    """

    limit: float | None = None
    held: float = 0.0
    outer: Purse | None = None

    def full(self, amount: float) -> Purse | None:
        """The purse that has no room for so much more; None where all have."""
        if self.limit is not None and self.held + amount > self.limit:
            return self
        return self.outer.full(amount) if self.outer else None

    def hold(self, amount: float) -> None:
        """Hold so much more; less than nothing gives back."""
        self.held += amount
        if self.outer:
            self.outer.hold(amount)


@dataclass(slots=True)
class Questions:
    """The questions that the code of a run has asked models so far."""

    asked: int = 0

    def count(self, questions: int) -> None:
        """Count so many more; `Invalid` where they are too many, and none of them is asked."""
        if self.asked + questions > MOST_QUESTIONS:
            raise Invalid(
                f"A script may ask models {MOST_QUESTIONS} questions a run.", hint="Ask several in one prompt."
            )
        self.asked += questions
