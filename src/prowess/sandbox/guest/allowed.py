"""The modules that scripts can import: they are loaded here, when the component is built.

The interpreter has no files while a script runs, so what is not loaded by then does not exist for it.
"""

from __future__ import annotations

import importlib

MODULES = """
_strptime abc array ast asyncio base64 binascii bisect calendar cmath codecs collections collections.abc colorsys
concurrent.futures configparser contextlib contextvars copy csv dataclasses datetime decimal difflib encodings.ascii
encodings.base64_codec encodings.cp1252 encodings.hex_codec encodings.idna encodings.latin_1 encodings.punycode
encodings.raw_unicode_escape encodings.unicode_escape encodings.utf_8_sig encodings.utf_16 encodings.utf_16_be
encodings.utf_16_le encodings.utf_32 enum errno fnmatch fractions functools gc graphlib hashlib heapq hmac html
html.entities html.parser inspect io ipaddress itertools json keyword linecache locale logging math numbers operator
os pathlib pprint queue random re reprlib secrets shlex stat statistics string struct sys textwrap time timeit token
tokenize tomllib traceback types typing unicodedata urllib.parse uuid warnings weakref xml.etree.ElementTree zlib
"""


def load() -> None:
    """Import all of them."""
    for name in MODULES.split():
        importlib.import_module(name)
