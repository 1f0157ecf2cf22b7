"""What a message alone says about how similar a skill must be to fit it.

Some messages resemble many skills although none fits; others, such as long or vague ones, resemble even the right skill
little. A linear function of the message's vector corrects the score for this. `scripts/encoder/prior.py` fits it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from prowess.match.array_file import FileDamaged, read_arrays
from prowess.match.vectors.embedder import SCALE

PRIOR_FILE = Path(__file__).with_name("prior.bin")
LEAST_PRIOR, LARGEST_PRIOR = -0.5, 0.7
FEW_WORDS, ENOUGH_WORDS = 1.0, 3.0
"""A message with this weight of informative words, or less, is not raised; with the second weight, it is raised fully."""


def message_prior(embedder: str, vector: NDArray[np.int8], words: float) -> float:
    """Return what the vector of a message adds to the log odds of every skill; 0 for other embedders than the default.

    `words` is the weight of the message's words: a greeting does not become a request because it resembles no skill.
    """
    encoder, weights, middle = _read_prior()
    if embedder != encoder or len(vector) != len(weights):
        return 0.0
    found = float(weights @ vector.astype(np.float32)) / SCALE - middle
    if found > 0:
        found *= min(max((words - FEW_WORDS) / (ENOUGH_WORDS - FEW_WORDS), 0.0), 1.0)
    return round(min(max(found, LEAST_PRIOR), LARGEST_PRIOR), 4)


@cache
def _read_prior() -> tuple[str, NDArray[np.float32], float]:
    # Without the file, messages are scored as with other embedders.
    try:
        content = read_arrays(PRIOR_FILE)
        return str(content.facts["encoder"]), content.arrays["weights"], float(content.facts["middle"])
    except (OSError, FileDamaged, KeyError):
        return "", np.zeros(0, np.float32), 0.0
