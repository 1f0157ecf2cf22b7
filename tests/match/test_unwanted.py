"""Requests that say what not to use."""

from __future__ import annotations

import pytest

from prowess.catalog.store import SearchDocument
from prowess.match.index import Index
from prowess.match.ranking import rank
from prowess.match.request import remove_unwanted

WANTED = "write the login sequence as a Mermaid chart"


@pytest.mark.parametrize(
    "order",
    [
        "don't use draw.io for this,",
        "Please do not open draw.io.",
        "No draw.io diagram please,",
        "instead of draw.io,",
        "Bitte kein draw.io,",
        "nimm dafür nicht draw.io,",
        "no uses draw.io,",
        "nada de draw.io,",
        "n'utilise pas draw.io,",
    ],
)
def test_an_order_about_what_not_to_use_is_left_out(order: str):
    assert remove_unwanted(f"{order} {WANTED}").strip() == WANTED


@pytest.mark.parametrize(
    "message",
    [
        "no sound in my video, please repair it",
        "my app does not use the GPU, why is that",
        "I can't and don't use git much, how do I rebase",
        "kein Ton im Video, was tun",
        "don't use draw.io",
        "how do I get a cat instead of a dog to do this",
    ],
)
def test_other_messages_stay_as_they_are(message: str):
    assert remove_unwanted(message) == message


def test_the_skill_that_is_wanted_comes_first():
    skills = Index.build(
        [
            SearchDocument(slug="draw-io", description="Create and edit draw.io diagrams and charts of networks."),
            SearchDocument(slug="mermaid", description="Write Mermaid flowcharts, sequence charts and diagrams."),
        ]
    )
    assert rank(skills, f"don't touch draw.io for this. {WANTED}", limit=1)[0].slug == "mermaid"


def test_a_long_run_of_breaks_takes_no_time():
    assert remove_unwanted("," * 20_000)
    assert remove_unwanted("no a " * 4_000)
