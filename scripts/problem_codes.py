"""Write docs/problems.md from the tables of problem codes: `python scripts/problem_codes.py`."""

from __future__ import annotations

from pathlib import Path

from prowess.catalog.store import CODES as CATALOG
from prowess.prompts.render_errors import RENDER_CODES as RENDERING
from prowess.prompts.shelf import REGISTRY_CODES as REGISTRIES
from prowess.skill.evals import EVAL_CODES as EVALS
from prowess.skill.fit_changes import FIT_CODES as FITTING
from prowess.skill.forms.form import CODES as FORMS
from prowess.skill.profiles.profile import CODES as PROFILES
from prowess.skill.text.document import TEXT_CODES as TEXT

PAGE = Path(__file__).resolve().parents[1] / "docs" / "problems.md"

HEAD = """# Problems

Validation reports every problem, each with a code, a severity, the field and line it is about, a message, and a hint that
says what to do. An `error` keeps a skill from passing the profile; under the profile `prowess` it also keeps the skill from
being kept or served. A `warning` is irregular but usable, an `info` is a fact worth knowing. The same code may be an error
under one profile and a warning under another. Codes are stable.

This page is written by `scripts/problem_codes.py`.
"""

SECTIONS = {
    "Reading markdown and frontmatter": TEXT,
    "Reading and writing forms": FORMS,
    "Checking against profiles": PROFILES,
    "Fitting to a profile on export": FITTING,
    "Serving": CATALOG,
    "Reading evals": EVALS,
    "Registries of prompts and rubrics": REGISTRIES,
    "Rendering templates": RENDERING,
}


def page() -> str:
    """Return the whole page."""
    parts = [HEAD]
    for title, codes in SECTIONS.items():
        rows = "\n".join(f"| `{code}` | {meaning} |" for code, meaning in sorted(codes.items()))
        parts.append(f"## {title}\n\n| code | meaning |\n|---|---|\n{rows}\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())
