"""The hashes of a skill folder that other tools record: `computedHash` of the skills CLI, and git's tree.

`computedHash` is ambiguous (paths and contents run together) and depends on a collation, so it is only written and compared
for compatibility. What Prowess itself relies on is the digest of a package.
"""

from __future__ import annotations

import hashlib
import os
import stat
import unicodedata
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.package import File, Package, check_size, too_large_error
from prowess.storage.files.safe_read import open_folder, read_regular_file

_PUNCTUATION = (
    " _-‐‒–—―⁓〜,、;⁏:!¡?¿‽.。·⁕⁖⁘⁙⁚⁛⁜⁝⁞'‘’‚‛‹›\"“”„‟〝〞〟«»()[]{}⁅⁆〈〉《》「」『』【】〔〕〖〗〘〙〚〛‖§¶⁋@*⁎⁑/\\&⁊#%‰‱†‡•‣‧⁃"
    "⁌⁍′‵〃‸※‿⁔⁀⁐⁁⁂`^°©®+±÷×<=>¬|¦~⁒⁄〄〒〓"
)
_CURRENCIES = "¤¢$£¥₠₡₢₣₤₥₦₩₪₫€₭₮₯₰₱₲₳₴₵₶₷₸₹₺₻₼₽₾₿₧"
_ACCENTS = "\u0332\u0313\u0314\u0301\u0300\u0306\u0302\u030c\u030a\u0308\u030b\u0303\u0307\u0338\u0327\u0328\u0304"
"""Characters in the order of CLDR's root collation, which JavaScript's `localeCompare` uses; taken from Node."""

_SYMBOLS_FROM, _CURRENCIES_FROM, _LETTERS_FROM = 1_000, 2_000_000, 3_000_000
_RANKS = {char: rank for rank, char in enumerate(_PUNCTUATION)} | {
    char: rank for rank, char in enumerate(f"{_CURRENCIES}0123456789", _CURRENCIES_FROM)
}
_ACCENT_RANKS = {char: rank for rank, char in enumerate(_ACCENTS, 1)}
# Letters that Unicode does not decompose, but that sort as if they were these.
_LIKE = {
    "ß": "ss",
    "æ": "ae",
    "œ": "oe",
    "ø": "o\u0338",
    "ł": "l\u0335",
    "đ": "d\u0335",
    "ħ": "h\u0335",
    "ŧ": "t\u0335",
}
_GEORGIAN, _BEFORE_ARMENIAN = range(0x10A0, 0x1100), 0x1090 - 0x500
_KATAKANA, _ABOVE_HIRAGANA = range(0x30A1, 0x30F7), 0x60
_UNHASHED_FOLDERS = frozenset({".git", "node_modules"})

SortKey = tuple[tuple[int, ...], tuple[tuple[int, ...], ...], tuple[int, ...]]


@lru_cache(maxsize=4096)
def collation_key(path: str) -> SortKey:
    """Return a key that sorts paths as `localeCompare` does: exactly for ASCII, closely for everything else.

    JavaScript's order outside ASCII depends on the locale of the machine and on its version of Unicode, so no two machines
    need agree on it. Here base letters are compared first, then accents, then case, in the order of the root collation.
    """
    primary: list[int] = []
    accents: list[tuple[int, ...]] = []
    cases: list[int] = []
    for char in unicodedata.normalize("NFD", path):
        lower = char.lower()
        for part in unicodedata.normalize("NFKD", _LIKE.get(lower, lower)).lower():
            if unicodedata.combining(part):
                if accents:
                    accents[-1] += (_ACCENT_RANKS.get(part, ord(part)),)
                continue
            primary.append(_rank(part))
            accents.append(())
            # Lower case, hiragana and plain letters come before upper case, katakana and compatible forms.
            cases.append(2 * (char != lower) + (ord(part) in _KATAKANA or part != lower))
    return tuple(primary), tuple(accents), tuple(cases)


def _rank(char: str) -> int:
    """Return the place of a base character: punctuation, other symbols, currencies, digits, then letters by script."""
    known = _RANKS.get(char)
    if known is not None:
        return known
    code = ord(char)
    if not char.isalnum():
        return _SYMBOLS_FROM + code
    if char == "ı":
        return _rank("i") + 1
    if code in _GEORGIAN:
        code -= _BEFORE_ARMENIAN
    return _LETTERS_FROM + 2 * (code - _ABOVE_HIRAGANA if code in _KATAKANA else code)


def has_certain_order(paths: Iterable[str]) -> bool:
    """Return True if every machine sorts these paths alike, so that a `computedHash` can be compared."""
    return all(path.isascii() for path in paths)


def compute_hash(contents: Mapping[str, bytes]) -> str:
    """Return the `computedHash` of files by their paths, as the skills CLI computes it."""
    digest = hashlib.sha256()
    for path in sorted(contents, key=collation_key):
        digest.update(path.encode())
        digest.update(contents[path])
    return digest.hexdigest()


def hash_package(package: Package) -> str:
    """Return the `computedHash` of a package."""
    return compute_hash({file.path: file.content for file in package.files})


def hash_folder(folder: Path) -> str:
    """Return the `computedHash` of a folder with everything that the skills CLI hashes, also files that no skill has.

    Raise `OSError` if it cannot be read, and `Invalid` for anything over a limit. Links are left out and never followed.
    """
    return compute_hash(read_hashed_files(folder))


def read_hashed_files(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder that the skills CLI hashes, by their paths."""
    found: dict[str, bytes] = {}
    descriptor = open_folder(str(folder))
    try:
        _collect(descriptor, "", found, DEFAULT_LIMITS, DEFAULT_LIMITS.depth)
    finally:
        os.close(descriptor)
    return found


def _collect(folder: int, prefix: str, found: dict[str, bytes], limits: Limits, depth: int) -> None:
    with os.scandir(folder) as listing:
        entries = sorted((entry.name, entry.stat(follow_symlinks=False).st_mode) for entry in listing)
    for name, mode in entries:
        path = f"{prefix}{name}"
        if stat.S_ISDIR(mode):
            if name in _UNHASHED_FOLDERS or not depth:
                continue
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            try:
                _collect(inner, f"{path}/", found, limits, depth - 1)
            finally:
                os.close(inner)
        elif stat.S_ISREG(mode):
            content = read_regular_file(name, limits.file_bytes + 1, folder)
            check_size(path, len(content), limits)
            found[path] = content
            if len(found) > limits.files:
                raise too_large_error("files in one skill", limits.files, f"more, up to {path!r}", "max_files")


def git_tree(files: Iterable[File]) -> str:
    """Return the SHA-1 of the git tree that has exactly these files: `skillFolderHash` of a skill from GitHub."""
    folders: dict[str, list[File]] = {}
    rows: list[tuple[bytes, bytes]] = []
    for file in files:
        head, slash, rest = file.path.partition("/")
        if slash:
            folders.setdefault(head, []).append(File(path=rest, content=file.content, mode=file.mode))
        else:
            mode = b"100755" if file.mode == "0755" else b"100644"
            rows.append((head.encode(), mode + b" " + head.encode() + b"\0" + _git_object(b"blob", file.content)))
    for name, inner in folders.items():
        tree = bytes.fromhex(git_tree(inner))
        # Git sorts a folder as if its name ended with a slash.
        rows.append((name.encode() + b"/", b"40000 " + name.encode() + b"\0" + tree))
    return _git_object(b"tree", b"".join(row for _, row in sorted(rows))).hex()


def _git_object(kind: bytes, content: bytes) -> bytes:
    # SHA-1 because git addresses objects by it; it is compared with what git says, never relied on alone.
    return hashlib.sha1(b"%s %d\0%s" % (kind, len(content), content), usedforsecurity=False).digest()
