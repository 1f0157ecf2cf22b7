"""Read frontmatter as strictly as the reference validator of the open standard does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, cast

import yaml

from prowess.errors import Problem
from prowess.skill.limits import DEFAULT_LIMITS, Limits

_NO_KEY = "(a list or mapping)"
_parse: Any = vars(yaml)["parse"]
NOT_BREAKS = str.maketrans("\x85\u2028\u2029", "\ue085\ue028\ue029")
TO_BREAKS = str.maketrans("\ue085\ue028\ue029", "\x85\u2028\u2029")
"""YAML 1.2 reads these three characters as text, PyYAML as line breaks. They pass through the parser as placeholders."""

_HINTS = {
    "strict-flow": "Write it in block style, one entry per line, or quote the text.",
    "strict-anchor": "Quote the text, or write the value in full where it is used.",
    "strict-tag": "Remove the tag, or quote the text.",
    "strict-duplicate": "Remove one of the two.",
    "strict-indentation": "Indent all mappings of the same level alike.",
    "strict-yaml": "Fix the YAML; quote text with a colon, a leading * or a leading @.",
    "strict-mapping": "Write one field per line, as `key: value`.",
    "strict-encoding": "Save the file as UTF-8.",
    "strict-size": "Move long content into the body or into separate files.",
    "strict-frontmatter": "Start the file with a --- line, then name and description, then another --- line.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StrictDocument:
    """The result of strict reading: the fields (None if the text is not a mapping), and every rejection.

    `raw` is the text that was read as YAML. Its line 1 is line 1 of the file.
    """

    fields: dict[str, Any] | None
    lines: dict[str, int]
    refusals: tuple[Problem, ...]
    raw: str = ""


def read_strictly(data: bytes, limits: Limits = DEFAULT_LIMITS) -> StrictDocument:
    """Read the frontmatter of a SKILL.md like the reference validator. Never raises."""
    try:
        content = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return _refused_document("strict-encoding", "The file is not UTF-8 text.", line)
    content = content.replace("\r\n", "\n").replace("\r", "\n")
    if not content.startswith("---"):
        return _refused_document("strict-frontmatter", _why_not_at_the_start(content), 1)
    # The first line that starts with three dashes. The reference itself cuts at any three dashes, also inside a line,
    # which breaks the specification; docs/profiles.md lists these cases.
    end = content.find("\n---", 2)
    if end < 0:
        return _refused_document("strict-frontmatter", "The frontmatter has no closing --- line.", 1)
    # From after the first dashes, so that the rest of line 1 is line 1 of the YAML and lines agree with the file.
    raw = content[3 : end + 1]
    # The reference has no limit. This one is among the differences in docs/profiles.md.
    size, cap = len(raw.encode()), limits.frontmatter_bytes
    if size > cap:
        return _refused_document("strict-size", f"The frontmatter is {size:,} bytes; the limit is {cap:,}.", 1)
    return replace(_Builder().read(raw), raw=raw)


def _why_not_at_the_start(content: str) -> str:
    if content.startswith("\ufeff---"):
        return "There is a byte order mark before the frontmatter."
    if content.lstrip().startswith("---"):
        return "There are blank lines or spaces before the frontmatter."
    return "The file does not start with frontmatter."


def _refused_document(code: str, message: str, line: int) -> StrictDocument:
    return StrictDocument(fields=None, lines={}, refusals=(_refusal(code, message, line, None),))


def _refusal(code: str, message: str, line: int | None, key: str | None) -> Problem:
    return Problem(code=code, severity="error", message=message, hint=_HINTS[code], field=key, line=line)


def parse_events(text: str) -> Iterator[Any]:
    """Return the parser's events: from libyaml, or from the Python parser where libyaml fails or differs."""
    # libyaml is much faster, but treats tabs and byte order marks differently. The Python parser decides wherever that
    # could matter, and words the errors.
    fast = getattr(yaml, "CSafeLoader", None)
    if fast is not None and "\t" not in text and "\ufeff" not in text:
        try:
            # As a list: if libyaml fails halfway, no event has been passed on, and the Python parser can start over.
            yield from list(cast("Iterator[Any]", _parse(text, Loader=fast)))
        except yaml.YAMLError:
            pass
        else:
            return
    yield from cast("Iterator[Any]", _parse(text, Loader=yaml.SafeLoader))


@dataclass(slots=True)
class _OpenCollection:
    """A collection that is being read."""

    value: dict[Any, Any] | list[Any]
    key: Any = None
    has_key: bool = False
    key_line: int = 0
    column: int | None = None


@dataclass(slots=True)
class _Builder:
    """Builds the fields from parser events, and records every rejection."""

    stack: list[_OpenCollection] = field(default_factory=list[_OpenCollection])
    refusals: list[Problem] = field(default_factory=list[Problem])
    lines: dict[str, int] = field(default_factory=dict[str, int])
    root: Any = None
    documents: int = 0

    def read(self, text: str) -> StrictDocument:
        """Process all events."""
        try:
            for event in parse_events(text.translate(NOT_BREAKS)):
                self._take(event)
        except yaml.YAMLError as error:
            self._add("strict-yaml", f"is not valid YAML: {_reason(error)}", _error_line(error, text))
            return StrictDocument(fields=None, lines=self.lines, refusals=tuple(self.refusals))
        if not isinstance(self.root, dict):
            self._add("strict-mapping", "has no fields", 1)
            return StrictDocument(fields=None, lines={}, refusals=tuple(self.refusals))
        return StrictDocument(fields=cast("dict[str, Any]", self.root), lines=self.lines, refusals=tuple(self.refusals))

    def _take(self, event: Any) -> None:
        line = event.start_mark.line + 1
        if isinstance(event, yaml.DocumentStartEvent):
            self.documents += 1
            if self.documents == 2:
                self._add("strict-yaml", "contains a second YAML document", line)
        elif self.documents > 1:
            return
        elif isinstance(event, yaml.AliasEvent):
            self._add("strict-anchor", "contains an alias (a value that starts with *)", line)
            self._put("*" + str(event.anchor), line)
        elif isinstance(event, yaml.ScalarEvent):
            self._check_node(event, line)
            self._put(str(event.value).translate(TO_BREAKS), line)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._open(event, line)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._put(self._close(line), line)

    def _open(self, event: Any, line: int) -> None:
        self._check_node(event, line)
        column: int = event.start_mark.column
        mapping = isinstance(event, yaml.MappingStartEvent)
        if event.flow_style:
            self._add("strict-flow", "contains a list or mapping in brackets (flow style)", line)
        elif mapping and self.stack:
            self._check_indentation(column, line)
        opened = _OpenCollection(value={} if mapping else [])
        self.stack.append(opened)

    def _close(self, line: int) -> Any:
        """Return the collection that ends here. As a mapping key it is rejected and replaced by a placeholder."""
        closed = self.stack.pop()
        parent = self.stack[-1] if self.stack else None
        if parent is None or isinstance(parent.value, list) or parent.has_key:
            return closed.value
        self._add("strict-yaml", "has a list or mapping as a key", line)
        return _NO_KEY

    def _check_indentation(self, column: int, line: int) -> None:
        parent = self.stack[-1]
        if not parent.has_key:
            return
        if parent.column is None:
            parent.column = column
        elif parent.column != column:
            self._add("strict-indentation", "has mappings of the same level that are indented differently", line)

    def _check_node(self, event: Any, line: int) -> None:
        if event.tag is not None:
            self._add("strict-tag", f"contains the type tag {event.tag!r}", line)
        if event.anchor is not None:
            self._add("strict-anchor", f"contains the anchor {'&' + event.anchor!r}", line)

    def _put(self, value: Any, line: int) -> None:
        if not self.stack:
            self.root = value
            return
        parent = self.stack[-1]
        if isinstance(parent.value, list):
            parent.value.append(value)
        elif not parent.has_key:
            parent.key, parent.has_key, parent.key_line = value, True, line
        else:
            self._put_pair(parent, parent.value, value)

    def _put_pair(self, parent: _OpenCollection, mapping: dict[Any, Any], value: Any) -> None:
        parent.has_key = False
        key = parent.key
        if key in mapping:
            self._add("strict-duplicate", f"has the key {str(key)[:80]!r} twice", parent.key_line)
            return
        mapping[key] = value
        if len(self.stack) == 1 and isinstance(key, str):
            self.lines[key] = parent.key_line

    def _add(self, code: str, what: str, line: int | None) -> None:
        # One report for each line and kind: `[[[[` would otherwise give four.
        if not any(known.code == code and known.line == line for known in self.refusals):
            key = str(self.stack[0].key) if self.stack and self.stack[0].has_key else None
            self.refusals.append(_refusal(code, f"The frontmatter {what}.", line, key))


def _reason(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError):
        return str(error.problem or error.context or "it cannot be parsed")
    char: Any = getattr(error, "character", None)
    return f"it contains the character U+{char:04X}" if isinstance(char, int) else "it cannot be parsed"


def _error_line(error: yaml.YAMLError, text: str) -> int | None:
    mark: Any = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is not None:
        return mark.line + 1
    position: Any = getattr(error, "position", None)
    return text.count("\n", 0, position) + 1 if isinstance(position, int) else None


_PREFIX = "tag:yaml.org,2002:"
_RESOLVERS: dict[Any, list[tuple[str, Any]]] = yaml.SafeLoader.yaml_implicit_resolvers


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar:
    """A value or key as written, with its YAML 1.1 type.

    `type` is the name of a YAML type: `str`, `int`, `float`, `bool`, `null`, `timestamp` and so on. `key` is the top-level key
    that it belongs to, and `depth` is 1 at the top level.
    """

    text: str
    type: str
    key: str
    line: int
    depth: int
    is_key: bool


def iter_scalars(raw: str) -> Iterator[Scalar]:
    """Yield every scalar of a YAML text, in order, up to the first syntax error."""
    stack: list[list[Any]] = []
    top = ""
    try:
        for event in parse_events(raw.translate(NOT_BREAKS)):
            if isinstance(event, yaml.CollectionStartEvent):
                _starts_key(stack)
                stack.append([isinstance(event, yaml.MappingStartEvent), False])
            elif isinstance(event, yaml.CollectionEndEvent):
                stack.pop()
            elif isinstance(event, yaml.ScalarEvent):
                is_key = _starts_key(stack)
                text = str(event.value).translate(TO_BREAKS)
                top = text if is_key and len(stack) == 1 else top
                mark: Any = event.start_mark
                yield Scalar(
                    text=text,
                    type="str" if event.style else plain_type(text),
                    key=top,
                    line=mark.line + 1,
                    depth=len(stack),
                    is_key=is_key,
                )
    except yaml.YAMLError:
        return


def _starts_key(stack: list[list[Any]]) -> bool:
    """Record that a node starts, and return True if it is a mapping key."""
    if not stack or not stack[-1][0]:
        return False
    stack[-1][1] = not stack[-1][1]
    return stack[-1][1]


def plain_type(text: str) -> str:
    """Return the type that a YAML 1.1 reader gives to unquoted text."""
    # PyYAML files its patterns under the first character that they can match, and those for any character under None.
    for tag, pattern in _RESOLVERS.get(text[:1], []) + _RESOLVERS.get(None, []):
        if pattern.match(text):
            return tag.removeprefix(_PREFIX)
    return "str"
