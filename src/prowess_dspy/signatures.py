"""Signatures from a specification that we check ourselves.

DSPy evaluates the types of a signature that is given as a string, so no text from a message is ever handed to
`dspy.Signature`: it gets fields whose names and types were checked here.
"""

from __future__ import annotations

import functools
import keyword
import re
from typing import Any, Literal

import dspy
import orjson

from prowess_dspy.errors import InvalidSignature

MAX_FIELDS = 32
MAX_TEXT = 20_000
MAX_ENUM = 200

TYPES: dict[str, Any] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "list": list[str],
    "list[str]": list[str],
    "list[int]": list[int],
    "list[float]": list[float],
    "list[bool]": list[bool],
    "dict": dict[str, Any],
    "dict[str, str]": dict[str, str],
    "list[dict]": list[dict[str, Any]],
}
JSON_SCHEMA_NAMES = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "array": "list",
    "object": "dict",
}

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
# Arguments of DSPy's own functions. An input named `lm` or `signature` would replace the model or the signature.
RESERVED = frozenset(
    {"signature", "new_signature", "demos", "config", "lm", "prediction", "max_iters", "completions", "interpreter"}
    | {"self", "instance", "args", "kwargs", "base", "augmented"}
)

Signature = type[dspy.Signature]


def build_signature(specification: Any) -> Signature:
    """Return the signature of `claims, topic -> contradictions` or of `{instructions, inputs: […], outputs: […]}`.

    Raises `InvalidSignature`.
    """
    if isinstance(specification, str):
        specification = _parse(specification)
    if not isinstance(specification, dict):
        raise InvalidSignature(
            "A signature is text such as 'question -> answer', or an object with inputs and outputs."
        )
    return _build(orjson.dumps(specification, option=orjson.OPT_SORT_KEYS))


def _parse(text: str) -> dict[str, Any]:
    if len(text) > MAX_TEXT:
        raise InvalidSignature(f"The signature is longer than {MAX_TEXT} characters.")
    sides = text.split("->")
    if len(sides) != 2:
        raise InvalidSignature("A signature has one '->' between its inputs and its outputs.")
    return {"inputs": _parse_side(sides[0]), "outputs": _parse_side(sides[1])}


def _parse_side(text: str) -> list[dict[str, str]]:
    fields: list[dict[str, str]] = []
    for part in re.split(r",(?![^\[]*\])", text):  # not the commas between brackets
        name, colon, type_name = part.partition(":")
        fields.append({"name": name.strip(), "type": type_name.strip()} if colon else {"name": name.strip()})
    return fields


@functools.lru_cache(maxsize=256)  # making the pydantic model of a signature takes 10 ms
def _build(encoded: bytes) -> Signature:
    specification = orjson.loads(encoded)
    if unknown := set(specification) - {"instructions", "inputs", "outputs"}:
        raise InvalidSignature(f"A signature has no {', '.join(sorted(unknown))}.")
    instructions = specification.get("instructions")
    if instructions is not None and (not isinstance(instructions, str) or len(instructions) > MAX_TEXT):
        raise InvalidSignature(f"The instructions of a signature are text of at most {MAX_TEXT} characters.")
    fields: dict[str, tuple[Any, Any]] = {}
    for side, make_field in (("inputs", dspy.InputField), ("outputs", dspy.OutputField)):
        for name, annotation, description in _fields(specification.get(side), side):
            if name in fields:
                raise InvalidSignature(f"The signature has two fields with the name {name!r}.")
            fields[name] = (annotation, make_field(desc=description) if description else make_field())
    return dspy.make_signature(fields, instructions or None)


def _fields(side: Any, where: str) -> list[tuple[str, Any, str | None]]:
    if not isinstance(side, list) or not 0 < len(side) <= MAX_FIELDS:
        raise InvalidSignature(f"The {where} of a signature are a list of 1 to {MAX_FIELDS} fields.")
    return [_field(entry) for entry in side]


def _field(entry: Any) -> tuple[str, Any, str | None]:
    if isinstance(entry, str):
        entry = {"name": entry}
    if not isinstance(entry, dict) or set(entry) - {"name", "type", "description", "enum"}:
        raise InvalidSignature("A field of a signature has a name, and may have a type, a description and an enum.")
    name = entry.get("name")
    if not isinstance(name, str) or not NAME.fullmatch(name) or keyword.iskeyword(name):
        raise InvalidSignature(f"Invalid field name {str(name)[:80]!r}. Use letters, digits and underscores.")
    if name in RESERVED or hasattr(dspy.Signature, name):
        raise InvalidSignature(f"The name {name!r} is reserved by DSPy. Use another.")
    description = entry.get("description")
    if description is not None and (not isinstance(description, str) or len(description) > MAX_TEXT):
        raise InvalidSignature(f"The description of {name} is text of at most {MAX_TEXT} characters.")
    return name, _annotation(name, entry.get("type"), entry.get("enum")), description


def _annotation(name: str, type_name: Any, enum: Any) -> Any:
    if enum is not None:
        if (
            not isinstance(enum, list)
            or not 0 < len(enum) <= MAX_ENUM
            or not all(isinstance(value, str) and 0 < len(value) <= 500 for value in enum)
        ):
            raise InvalidSignature(f"The enum of {name} is a list of 1 to {MAX_ENUM} texts.")
        return Literal[tuple(enum)]
    if type_name is None:
        return str
    known = TYPES.get(JSON_SCHEMA_NAMES.get(type_name, type_name)) if isinstance(type_name, str) else None
    if known is None:
        raise InvalidSignature(f"The type of {name} is not one of {', '.join(TYPES)}.")
    return known


def infer_signature(fields: list[dict[str, str]], own: frozenset[str], inputs: set[str]) -> Signature:
    """Return the signature that a saved state was made for, as far as the state tells.

    A state has the prefix and the description of each field, but not which are inputs: those are the `inputs`.
    Fields in `own` belong to the template. Every field is text.
    """
    sides: dict[str, list[dict[str, str]]] = {"inputs": [], "outputs": []}
    for field in fields:
        placeholder = re.fullmatch(r"\$\{(\w+)\}", field["description"])
        name = placeholder[1] if placeholder else re.sub(r"\W+", "_", field["prefix"]).strip("_").lower()
        if name in own:
            continue
        entry = {"name": name} if placeholder else {"name": name, "description": field["description"]}
        sides["inputs" if name in inputs else "outputs"].append(entry)
    return build_signature(sides)
