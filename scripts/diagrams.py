"""Draw the Mermaid diagrams of the documentation while the site is built.

The SVG becomes part of the page. Readers need no script, and nothing is loaded from elsewhere.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

import mmdr
from pymdownx.superfences import SuperFencesException


def fence(source: str, *_: Any, **__: Any) -> str:
    """Return the HTML of a ```mermaid block: a custom fence of pymdownx.superfences."""
    try:
        svg = mmdr.render(source).svg()
    except ValueError as error:
        # Any other exception would turn the diagram into a block of text, without a word.
        raise SuperFencesException(f"{error}\n{source}") from error
    # A page may have several diagrams, and the styles of one must not reach another.
    own = "diagram-" + hashlib.sha256(source.encode()).hexdigest()[:8]
    svg = re.sub(r'(id="|#)merman\b', rf"\g<1>{own}", svg)
    return f'<div class="diagram">{svg}</div>'
