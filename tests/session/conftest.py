"""What the tests of the prompt share: a reader of tags that owes nothing to the project."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

import pytest

ALIKE = {
    "aceiopsxyhkmt": "асеіорѕхункмт",
    "abceghiklmnoprstvy": "ᴀʙᴄᴇɢʜɪᴋʟᴍɴᴏᴘʀꜱᴛᴠʏ",
    "<<<<<//": "‹⟨〈❮〈∕⁄",
}
LOOKS = {ord(alike): plain for plains, alikes in ALIKE.items() for plain, alike in zip(plains, alikes, strict=True)}
TAG = re.compile(r"<[\s/]*(available_skills|graph_context|memory|policies|skills?)(?![\w.:-])")


@pytest.fixture(scope="session")
def tags_read() -> Callable[[str], list[str]]:
    """The names of all tags that somebody reads in a text who sees no difference between letters that look alike."""

    def read(text: str) -> list[str]:
        whole = unicodedata.normalize("NFKD", text)
        seen = [char for char in whole if char.isspace() or unicodedata.category(char)[0] not in "MC"]
        return TAG.findall("".join(seen).casefold().translate(LOOKS))

    return read
