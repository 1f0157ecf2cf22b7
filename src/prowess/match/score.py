"""From signals to one figure to rank by, and from the signals of the best to a score and a decision.

These are two questions: which skill is nearer to a message than the others, and whether it is near enough. What answers
the first well answers the second badly, so each has figures of its own.
"""

from __future__ import annotations

import math

from prowess.match.recommendation import Decision
from prowess.match.signals import Signals

LEXICAL, COSINE, COVERAGE, NAME, PHRASE, DECLARED = 8.0, 4.0, 4.0, 1.0, 5.0, 0.5
"""What a signal is worth in the ranking. Fitted on several kinds of messages, each left out in turn, and rounded."""

EXPLICIT = 6.0
"""What it is worth that the message calls the skill by name, or fits one of its patterns; in the ranking these are first."""
_FIRST = 100.0

OFFER, MAYBE = 0.5, 0.2
"""From which score on a skill is worth offering, or at least a look."""

_STRONG = 8.0
_DIGITS = 4


def worth_of(signals: Signals, *, explicit: bool) -> float:
    """The figure to rank by, rounded so that it is the same everywhere."""
    worth = (
        LEXICAL * signals.lexical
        + COSINE * signals.cosine
        + COVERAGE * signals.coverage
        + NAME * signals.name
        + PHRASE * signals.phrase
        + DECLARED * signals.declared
        + (_FIRST if explicit else 0.0)
    )
    return round(worth, 6)


def score_of(signals: Signals, *, explicit: bool, verbatim: bool, unspaced: bool) -> float:
    """How likely the skill fits, from 0 to 1. `verbatim`: the message has a trigger phrase of it word for word.

    By absolute nearness and matched words, the more the skill says the more of both: fitted as a logistic regression on
    messages that have a fitting skill and on messages that have none. Where the vectors know nothing of meaning
    (`unspaced`), by how much of the message the skill has.
    """
    if unspaced:
        evidence = 6 * signals.lexical + 3 * signals.coverage - 2.2
    else:
        evidence = (
            4.1 * signals.cosine
            + 4.25 * signals.phrase
            + 0.63 * min(signals.strength, _STRONG)
            - 1.07 * math.log(3 + signals.length)
            - 1.83
        )
    evidence += (EXPLICIT if explicit else 0.0) + 2 * (1.0 if verbatim else signals.declared)
    return round(1 / (1 + math.exp(-evidence)), _DIGITS)


def decide(score: float) -> Decision:
    """What to do with a skill of this score."""
    return "offer" if score >= OFFER else "maybe" if score >= MAYBE else "no"
