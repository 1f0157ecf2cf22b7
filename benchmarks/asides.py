"""What something beside the request costs: a name, a date, a price, a number, a remark, or an unrelated web address.

    python benchmarks/asides.py [--sets NAME,…] [--out FILE]

For each kind: how often the right skill is first, how often it is first and offered, and how often a message that nothing fits
is offered a skill. The encoder was trained with other texts, of which many have the same form ("for our client …"); of the
kind `mood`, three are in `scripts/encoder/asides.json`. Texts like those of `system`, `remark` and `opening` vary most.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from statistics import fmean

from material.sets import RetrievalSet, present_sets
from peers.by_prowess import ProwessPeer

HERE = Path(__file__).resolve().parent
ASIDES = {
    "none": ("",),
    "e-mail": ("anna.schmidt@hofmann-partner.de", "bob@acme.io", "hr-team@mycompany.com", "k.lee99@gmail.com"),
    "date": ("until 2026-03-14", "by Friday 5pm", "on 12/03/2025 at 14:30"),
    "ticket": ("(ticket ABC-1234)", "for PROJ-88", "#4821"),
    "price": ("$1,299.00", "for 300 EUR", "(budget: 2k)"),
    "mood": ("asap!!", "it's urgent", "!!!", "🙏🙏", "pls 😅"),
    "system": ("I'm on Windows 11", "on my MacBook", "using Chrome"),
    "person": ("for Martina Hoffmann", "Mr. O'Brien needs it", "for our client Nordlicht GmbH"),
    "remark": (
        "for the school play", "my grandmother asked", "we did that at my old job too", "before the kids wake up",
        "the auditors come tomorrow", "since the merger nobody knows", "(second attempt)", "it is raining all week anyway",
        "my flatmate dared me",
    ),
    "opening": (
        "Rough day today.", "Greetings from the ferry!", "Okay listen.", "My therapist says I should delegate more.",
        "Mornin' mate,", "so the thing is that", "Picture this:",
    ),
    "address": (
        "https://intranet.acme-corp.com/wiki/display/OPS/Runbook+4", "https://www.notion.so/team/Notes-2024-8f2e1",
        "https://jira.mycompany.io/browse/ABC-123", "https://medium.com/@someone/why-we-moved-7a1",
        "https://github.com/acme/payments/pull/311", "https://stackoverflow.com/questions/1234/foo",
        "https://drive.google.com/file/d/1xyz/view", "www.example.org/page?x=1", "https://blog.hofmann-partner.de/posts/12",
    ),
}  # fmt: skip
"""The kinds `remark`, `opening` and `system` show what is left where the words of an aside say something."""
Figures = tuple[float, float, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sets", default="coding,office,research")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "asides.json")
    args = parser.parse_args()
    print(f"{'right first, offered, false offers, in %':<42}" + "".join(f"{name:>20}" for name in ASIDES))
    found = {each.name: measure(each) for each in present_sets(args.sets.split(","))}
    for name, row in found.items():
        print_row(name, row)
    print_row("mean", {kind: means([row[kind] for row in found.values()]) for kind in ASIDES})
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def measure(each: RetrievalSet) -> dict[str, Figures]:
    """The figures of each kind, in percent."""
    peer = ProwessPeer(each.cards)
    report: dict[str, Figures] = {}
    for kind in ASIDES:
        chance = random.Random(5)
        first = offered = false = 0
        for query in each.queries:
            for number, item in peer.recommendations(with_aside(query.text, kind, chance), 1):
                is_right = each.cards[number].id in query.relevant
                first += is_right
                offered += is_right and item.decision == "offer"
        for stranger in each.strangers:
            found = peer.recommendations(with_aside(stranger.text, kind, chance), 1)
            false += any(item.decision == "offer" for _, item in found)
        of_all, of_strangers = 100 / len(each.queries), 100 / len(each.strangers)
        report[kind] = first * of_all, offered * of_all, false * of_strangers
    return report


def with_aside(message: str, kind: str, chance: random.Random) -> str:
    aside = chance.choice(ASIDES[kind])
    if not aside:
        return message
    return f"{aside} {message}" if kind == "opening" else message + chance.choice((" ", " ", ", ", " - ")) + aside


def means(rows: list[Figures]) -> Figures:
    first, offered, false = (fmean(values) for values in zip(*rows, strict=True))
    return first, offered, false


def print_row(name: str, row: dict[str, Figures]) -> None:
    cells = (f"{first:.1f} {offered:.1f} {false:.1f}" for first, offered, false in row.values())
    print(f"{name:<42}" + "".join(f"{cell:>20}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
