"""The list of skills that a prompt can afford: one line a skill, under a budget of characters.

Skills that match the message or were used recently come first and keep their description. The others get a shortened
description, then only a name. If not even all names fit, only those are listed that match, were used or come close to the
message, and a last line says how many are missing. The order of the cards does not matter: the same cards give the same
plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from math import isnan
from operator import itemgetter
from typing import Literal, NamedTuple

from prowess.lazy_dataclass import dataclass
from prowess.session.session import CHARS_PER_TOKEN
from prowess.skill.text.prompt_tags import find_tags, to_one_line, to_prompt_text

Form = Literal["full", "short", "name", "omitted"]

DEFAULT_BUDGET = 8_000
WINDOW_SHARE = 0.02
SHORTEST_DESCRIPTION = 24
"""The least characters of a shortened description. Fewer say nothing, so the name stands alone."""

_ELLIPSIS = "…"
_COLON = ": "
_SLUG = itemgetter(0)


class IndexCard(NamedTuple):
    """A skill to list: how well it matches the message, and how often it was used.

    `nearness` ranks the skills that do not match but are the nearest to the message.
    """

    slug: str
    description: str
    relevance: float = 0.0
    uses: int = 0
    nearness: float = 0.0


class IndexEntry(NamedTuple):
    """How a card is listed, and its line; empty for an omitted one."""

    slug: str
    form: Form
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexPlan:
    """The text of the list, the entries that it shows, and the slugs that it omits, all in order."""

    text: str
    shown: tuple[IndexEntry, ...]
    unnamed: tuple[str, ...]

    @property
    def entries(self) -> tuple[IndexEntry, ...]:
        """An entry for every card."""
        return (*self.shown, *(IndexEntry(slug, "omitted", "") for slug in self.unnamed))

    @property
    def chars(self) -> int:
        """The length of the list."""
        return len(self.text)

    @property
    def omitted(self) -> int:
        """How many cards are omitted."""
        return len(self.unnamed)


def default_budget(window: int | None) -> int:
    """Return the budget in characters: 2 % of a context window given in tokens."""
    return int(window * WINDOW_SHARE * CHARS_PER_TOKEN) if window else DEFAULT_BUDGET


def format_omitted(count: int) -> str:
    """Return the last line of a list that omits skills."""
    return f"… and {count} more; call search_skills with a few words to find them"


def plan_index(cards: Sequence[IndexCard], budget: int) -> IndexPlan:
    """Plan the list within the budget; slugs are unique. The text is empty if not even the count of omitted skills fits."""
    ordered = _sort_cards(cards)
    names = _fit_names(ordered, budget)
    if len(names) < len(ordered):
        return _plan_partial(ordered, budget)
    descriptions = [_clean_description(card) for card in ordered]
    shares = _share_room(ordered, descriptions, budget - _joined_length(names))
    rows = zip(ordered, names, descriptions, shares, strict=True)
    return _make_plan([_make_entry(card, name, description, share) for card, name, description, share in rows])


def _sort_cards(cards: Sequence[IndexCard]) -> list[IndexCard]:
    """Sort by relevance, use, nearness and slug. Most cards have only a slug, so they are sorted by it alone, which is faster."""
    first: list[IndexCard] = []
    plain: list[IndexCard] = []
    last: list[IndexCard] = []
    for card in cards:
        _, _, relevance, uses, nearness = card
        if not relevance and not uses and not nearness:
            plain.append(card)
        elif _is_preferred(card) or (nearness > 0 and not relevance < 0 and not uses < 0):
            first.append(card)
        elif relevance < 0 or uses < 0 or nearness < 0:
            last.append(card)
        else:
            plain.append(card)
    plain.sort(key=_SLUG)
    return [*sorted(first, key=_rank), *plain, *sorted(last, key=_rank)]


def _rank(card: IndexCard) -> tuple[float, int, float, str]:
    # NaN compares as false with everything, so sorting by it would depend on the order of the cards.
    relevance, nearness = (0.0 if isnan(value) else -value for value in (card.relevance, card.nearness))
    return relevance, -card.uses, nearness, card.slug


def _fit_names(cards: Sequence[IndexCard], budget: int) -> list[str]:
    """Return the lines with names only, up to the first that exceeds the budget."""
    names: list[str] = []
    # Lines are joined by line ends, so the first one costs none.
    used = -1
    for card in cards:
        name = _name_line(card)
        used += len(name) + 1
        if used > budget:
            break
        names.append(name)
    return names


def _name_line(card: IndexCard) -> str:
    return f"- {to_prompt_text(to_one_line(card.slug))}"


def _joined_length(lines: Sequence[str]) -> int:
    return sum(map(len, lines)) + max(0, len(lines) - 1)


def _clean_description(card: IndexCard) -> str:
    return to_prompt_text(to_one_line(card.description))


def _make_entry(card: IndexCard, name: str, description: str, share: int) -> IndexEntry:
    """Return the line of a card whose description may have `share` characters."""
    text = description if share >= len(description) else _shorten(description, share)
    if not text:
        return IndexEntry(card.slug, "name", name)
    return IndexEntry(card.slug, "full" if text == description else "short", f"{name}{_COLON}{text}")


def _shorten(description: str, share: int) -> str:
    """Cut a description and add an ellipsis. If the cut would create one of our tags, drop it too."""
    if share < SHORTEST_DESCRIPTION:
        return ""
    shortened = description[: share - len(_ELLIPSIS)].rstrip()
    tags = find_tags(shortened)
    # `<skillful` cut after `<skill` becomes a tag of ours. The whole description was neutralized, so only a cut can
    # do that.
    shortened = shortened[: tags[-1].start].rstrip() if tags else shortened
    return shortened and shortened + _ELLIPSIS


def _make_plan(entries: Sequence[IndexEntry], rest: Sequence[IndexCard] = ()) -> IndexPlan:
    lines = [entry.text for entry in entries] + ([format_omitted(len(rest))] if rest else [])
    return IndexPlan(text="\n".join(lines), shown=tuple(entries), unnamed=tuple(map(_SLUG, rest)))


def _plan_partial(cards: Sequence[IndexCard], budget: int) -> IndexPlan:
    """Plan a list in which not all names fit.

    Preferred cards get up to three quarters of the room for their descriptions. Names of the next ones fill the rest: of
    those that are preferred or near, never of skills that are only first in the alphabet. If nothing is known about any
    card, the names are spread over the whole catalog.
    """
    if len(format_omitted(len(cards))) > budget:
        return IndexPlan(text="", shown=(), unnamed=tuple(map(_SLUG, cards)))
    entries = _describe_preferred(cards, budget * 3 // 4)
    used = sum(len(entry.text) + 1 for entry in entries)
    known = sum(1 for card in cards if _is_preferred(card) or card.nearness > 0)
    places = range(len(entries), known) if known else _spread(len(cards))
    for index in places:
        name = _name_line(cards[index])
        if used + len(name) + 1 + len(format_omitted(len(cards) - len(entries) - 1)) > budget:
            break
        entries.append(IndexEntry(cards[index].slug, "name", name))
        used += len(name) + 1
    if not known:
        entries.sort(key=_SLUG)
    shown = {entry.slug for entry in entries}
    return _make_plan(entries, [card for card in cards if card.slug not in shown])


def _spread(count: int) -> Iterator[int]:
    """Yield all places below `count` in an order in which every beginning is spread evenly: by their reversed bits."""
    bits = max(count - 1, 0).bit_length()
    for number in range(1 << bits):
        index = int(f"{number:0{bits}b}"[::-1], 2) if bits else 0
        if index < count:
            yield index


def _describe_preferred(cards: Sequence[IndexCard], room: int) -> list[IndexEntry]:
    """Return the first preferred cards in full, as many as fit together with the last line."""
    entries: list[IndexEntry] = []
    used = len(format_omitted(len(cards)))
    for card in cards:
        if not _is_preferred(card):
            break
        description = _clean_description(card)
        entry = _make_entry(card, _name_line(card), description, len(description))
        used += len(entry.text) + 1
        if used > room:
            break
        entries.append(entry)
    return entries


def _is_preferred(card: IndexCard) -> bool:
    return card.relevance > 0 or card.uses > 0


def _share_room(cards: Sequence[IndexCard], descriptions: Sequence[str], room: int) -> list[int]:
    """Return how many characters each description gets: preferred cards all of them, the others an even share."""
    costs = [len(_COLON) + len(description) if description else 0 for description in descriptions]
    if sum(costs) <= room:
        return [len(description) for description in descriptions]
    spoken = next((index for index, card in enumerate(cards) if not _is_preferred(card)), len(cards))
    whole = sum(1 for total in accumulate(costs[:spoken]) if total <= room)
    rest = _share_evenly(costs[whole:], room - sum(costs[:whole]))
    return [max(0, cost - len(_COLON)) for cost in [*costs[:whole], *rest]]


def _share_evenly(costs: Sequence[int], room: int) -> list[int]:
    """Share the room as if it were dealt one character at a time, among as many cards as can get a useful share."""
    minimum = len(_COLON) + SHORTEST_DESCRIPTION
    served, reserved = 0, 0
    for cost in costs:
        if reserved + min(cost, minimum) > room:
            break
        reserved += min(cost, minimum)
        served += 1
    # Short descriptions take less than the level; what they leave is already shared out among the longer ones.
    level, spare = _fair_level(costs[:served], room)
    shares = [min(cost, level) for cost in costs[:served]]
    for index, cost in enumerate(costs[:served]):
        if spare and cost > level:
            shares[index] += 1
            spare -= 1
    return [*shares, *([0] * (len(costs) - served))]


def _fair_level(costs: Sequence[int], room: int) -> tuple[int, int]:
    """Return the largest share that every card can have, and the characters that are left over."""
    room_left = room
    for index, cost in enumerate(sorted(costs)):
        level = room_left // (len(costs) - index)
        if cost > level:
            return level, room_left - level * (len(costs) - index)
        room_left -= cost
    return max(costs, default=0), 0
