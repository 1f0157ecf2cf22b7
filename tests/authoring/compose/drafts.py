"""Answers of a model that drafts skills."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TIMELINE: dict[str, Any] = {
    "slug": "timeline-check",
    "title": "Timeline check",
    "description": "Checks the timeline of a story for contradictions. Use it when someone asks whether dates are consistent.",
    "instructions": "Run this skill with the text of the story, then report the contradictions.",
    "trigger_phrases": ["check the timeline", "are the dates consistent", "timeline contradictions"],
    "inputs": [
        {
            "name": "story",
            "type": "string",
            "description": "The story.",
            "required": True,
            "example": "On Monday it rained.",
        }
    ],
    "prompt_template": "List every contradiction in the timeline of this story:\n\n{{ story }}",
    "code_template": "",
    "dspy_template": "",
    "assertions": [
        {"type": "length", "check": "char_range", "min": 1, "max": 4000, "description": "It is short enough to read"}
    ],
    "queries": [
        {"query": "check the timeline of my novel", "should_trigger": True},
        {"query": "are the dates in this story consistent?", "should_trigger": True},
        {"query": "find timeline contradictions in chapter two", "should_trigger": True},
        {"query": "bake a cake", "should_trigger": False},
        {"query": "draw a chart of sales", "should_trigger": False},
    ],
    "evals": [{"prompt": "Check: Ann was born in 1990 and was 5 in 1992.", "expected": "It names Ann's age."}],
    "note": "First draft.",
}
WITH_MODULE = {**TIMELINE, "dspy_template": "chain_of_thought", "note": "Added a dspy_module."}


def changed(**fields: Any) -> dict[str, Any]:
    """Return the draft with other fields."""
    return {**TIMELINE, **fields}


def write_script(path: Path, *answers: Any) -> str:
    """Write a script with these answers; the name of the model that follows it."""
    path.write_text(json.dumps([{"json": answer} for answer in answers]), encoding="utf-8")
    return f"scripted:{path}"
