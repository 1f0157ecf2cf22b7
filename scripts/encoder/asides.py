"""Put something beside a request that does not change it: for whom, until when, a price, a number, a remark, a courtesy.

`asides.json` has the texts by language and kind, with places such as `{person}` to be filled in.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path

ASIDES_FILE = Path(__file__).with_name("asides.json")
KIND_WEIGHTS = {
    "remark": 13.0, "person": 5.0, "date": 4.0, "polite": 3.5, "company": 3.0, "agent": 3.0, "amount": 2.5, "id": 2.5,
    "mood": 2.5, "contact": 2.0, "place": 1.5, "occasion": 1.5, "platform": 1.2,
}  # fmt: skip
COUNTS, COUNT_WEIGHTS = (1, 2, 3), (6, 3, 1)
_PLACE = re.compile(r"\{(\w+)\}")
_CHINESE, _KANA = re.compile("[\u4e00-\u9fff]"), re.compile("[\u3040-\u30ff]")
_COMMON_WORDS = {
    "de": "der die das und ich für mit nicht ein eine ist mir meine bitte den von",
    "fr": "le la les des une est pour avec dans mon ma je du et sur",
    "es": "el los las una para con mi de que en y por del",
}
_ENDS, _OPEN_ENDS = ".!?。！？", ",:，："


class Asides:
    """Draws asides at random."""

    def __init__(self, seed: int) -> None:
        texts = json.loads(ASIDES_FILE.read_text("utf-8"))
        self._names: dict[str, list[str]] = texts["names"]
        self._days: dict[str, list[str]] = texts["days"]
        self._texts = {
            language: {**found["beside"], "remark": found["remarks"]} for language, found in texts["languages"].items()
        }
        self._random = random.Random(seed)
        self._makers: dict[str, Callable[[], str]] = {
            "person": self._person,
            "company": self._company,
            "time": self._time,
            "amount": self._amount,
            "id": self._id,
            "number": self._number,
            "address": self._address,
            "phone": self._phone,
        }

    def add_to(self, request: str) -> str:
        """Return a request with one to three asides before or after it."""
        language = guess_language(request)
        for _ in range(self._random.choices(COUNTS, COUNT_WEIGHTS)[0]):
            request = self._add_one(request, "en" if self._random.random() < 0.12 else language)
        return request

    def alone(self, count: int) -> list[str]:
        """Return asides without a request: each text twice, as it is and in lower case, and `count` times two or three of them."""
        found: list[str] = []
        for language, kinds in self._texts.items():
            for text in [text for texts in kinds.values() for text in texts for _ in range(2)]:
                filled = self._fill_in(text, language)
                found += {filled, filled.lower(), filled.rstrip(_ENDS + _OPEN_ENDS)} - {""}
        languages = list(self._texts)
        for _ in range(count):
            language = self._random.choice(languages)
            drawn = [self._draw(language)[1] for _ in range(self._random.choice((2, 2, 3)))]
            found.append(self._random.choice((", ", " ", ". ", "! ")).join(drawn))
        return found

    def _draw(self, language: str) -> tuple[str, str]:
        """Return the kind of an aside, and the aside."""
        texts = self._texts[language]
        kinds = [kind for kind in KIND_WEIGHTS if kind in texts]
        kind = self._random.choices(kinds, [KIND_WEIGHTS[kind] for kind in kinds])[0]
        return kind, self._fill_in(self._random.choice(texts[kind]), language)

    def _fill_in(self, text: str, language: str) -> str:
        return _PLACE.sub(lambda place: self._fill(place[1], language), text)

    def _add_one(self, request: str, language: str) -> str:
        kind, aside = self._draw(language)
        if self._random.random() < 0.25:
            aside = aside.lower()
        is_sentence = kind == "remark" and (aside[-1] in _ENDS + _OPEN_ENDS or self._random.random() < 0.3)
        if is_sentence or (language != "zh" and self._random.random() < 0.15):
            return self._as_sentence(request, aside)
        is_first = self._random.random() < (0.6 if kind in {"polite", "mood"} else 0.3)
        return self._in_front(request, aside, language) if is_first else self._behind(request, aside)

    def _as_sentence(self, request: str, aside: str) -> str:
        if self._random.random() < 0.7:
            aside = aside[0].upper() + aside[1:]
        if aside[-1] not in _ENDS + _OPEN_ENDS:
            aside += self._random.choice((".", ".", "", "!"))
        if aside[-1] in _OPEN_ENDS or self._random.random() < 0.5:
            return f"{aside} {request}"
        request = request.rstrip()
        return f"{request}{'' if request[-1:] in _ENDS else self._random.choice(('.', '.', '', ',', chr(10)))} {aside}"

    def _in_front(self, request: str, aside: str, language: str) -> str:
        between = ("，", "", " ") if language == "zh" else (", ", " ", ": ", " - ", "\n")
        return f"{aside}{self._random.choice(between)}{request}"

    def _behind(self, request: str, aside: str) -> str:
        request, end = request.rstrip(), ""
        if request[-1:] in _ENDS and self._random.random() < 0.7:
            request, end = request[:-1], request[-1:]
        aside = aside.rstrip(_OPEN_ENDS)
        if self._random.random() < 0.17:
            return f"{request} ({aside}){end}"
        return f"{request}{self._random.choice((' ', ' ', ' ', ', ', ' - '))}{aside}{end}"

    def _fill(self, place: str, language: str) -> str:
        if place in self._names:
            return self._random.choice(self._names[place])
        return self._date(language) if place == "date" else self._makers[place]()

    def _person(self) -> str:
        first, last = (self._fill(place, "") for place in ("first", "last"))
        return self._random.choice((first, f"{first} {last}", f"{first} {last}", f"{first[0]}. {last}"))

    def _time(self) -> str:
        hour, minute = self._random.randint(7, 19), self._random.choice(("00", "15", "30", "45"))
        return self._random.choice((f"{hour}:{minute}", f"{hour % 12 + 1}pm", f"{hour} Uhr"))

    def _amount(self) -> str:
        draw = self._random
        amount = draw.choice((draw.randint(5, 999), draw.randint(1, 99) * 100, draw.randint(1_000, 250_000)))
        forms = "${}", "${:,}", "{} EUR", "€{}", "{}€", "{} USD", "£{}", "{} Euro", "{}k", "{} dollars", "{:,}.00"
        return draw.choice(forms).format(amount)

    def _id(self) -> str:
        draw = self._random
        project = draw.choice(
            (draw.choice(self._names["project"]), "".join(draw.choices("ABCDEFGHKLMNPRSTUVWXYZ", k=3)))
        )
        return f"{draw.choice(('', '', '#'))}{project}{draw.choice('--_/')}{draw.randint(1, 99_999)}"

    def _number(self) -> str:
        return str(self._random.randint(1, 10 ** self._random.randint(2, 7)))

    def _phone(self) -> str:
        start = self._random.choice(("+49 30 ", "+1 415 555 ", "0171/", "(020) ", "+33 6 "))
        return f"{start}{self._random.randint(1_000, 9_999_999)}"

    def _company(self) -> str:
        draw, names = self._random, self._names
        words = names["company word"]
        name = draw.choice((
            draw.choice(words),
            f"{draw.choice(words)} {draw.choice(words)}",
            f"{draw.choice(words)}{draw.choice(words).lower()}",
            f"{draw.choice(names['last'])} & {draw.choice(names['last'])}",
            draw.choice(names["last"]),
        ))  # fmt: skip
        return f"{name} {draw.choice(names['legal form'])}" if draw.random() < 0.75 else name

    def _date(self, language: str) -> str:
        draw = self._random
        if draw.random() < 0.45:
            return draw.choice(self._days[language])
        day, month, year = draw.randint(1, 28), draw.randint(1, 12), draw.randint(2022, 2027)
        name = self._names["month"][month - 1]
        return draw.choice((
            f"{year}-{month:02}-{day:02}", f"{day:02}.{month:02}.{year}", f"{day}/{month}/{year}", f"{day}. {month}.",
            f"{name} {day}", f"{day} {name} {year}", f"{name[:3]} {day}", f"Q{(month + 2) // 3}", str(year),
        ))  # fmt: skip

    def _address(self) -> str:
        draw, names = self._random, self._names
        first, last = draw.choice(names["first"]), draw.choice(names["last"])
        box = draw.choice((f"{first}.{last}", f"{first[0]}.{last}", first, draw.choice(names["mailbox"])))
        host = draw.choice(
            (*names["host"], f"{draw.choice(names['company word'])}.{draw.choice(('com', 'de', 'io', 'org'))}")
        )
        return f"{box}@{host}".lower().replace(" ", "")


def guess_language(text: str) -> str:
    """Return the language of a text if there are asides in it, and else English."""
    if _CHINESE.search(text):
        return "en" if _KANA.search(text) else "zh"
    words = set(text.lower().split())
    return next(
        (language for language, common in _COMMON_WORDS.items() if len(words.intersection(common.split())) > 1), "en"
    )
