"""Measure how much work a JSON Schema causes, before any value is checked against it.

A small schema can cause a lot of work: parts that refer to other parts twice double the work at each step, and a part that
refers to itself twice doubles it at each level of the value. The schema is treated as a graph of its parts; the cost is the
number of paths through that graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from graphlib import CycleError, TopologicalSorter
from typing import Any, Literal, NamedTuple, cast

from prowess.lazy_dataclass import dataclass
from prowess.skill.json_values import json_list, json_object

_SAME_LISTS = ("allOf", "anyOf", "oneOf")
# `dependencies`, and below `additionalItems` and a list under `items`, belong to older drafts. The validator still
# applies them, so they count.
_SAME_MAPS = ("dependentSchemas", "dependencies")
_SAME = ("not", "if", "then", "else")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_EACH_FIELD = ("additionalProperties", "unevaluatedProperties")
_EACH_ITEM = ("items", "additionalItems", "unevaluatedItems", "contains")
_ITEM_LISTS = ("prefixItems", "items")
_ANCHORS = ("$anchor", "$dynamicAnchor")
# The validator has the schemas of JSON Schema built in: a reference to one is followed without the network.
_META_SCHEMAS = ("http://json-schema.org/", "https://json-schema.org/")

_UNEVALUATED = {"unevaluatedProperties", "unevaluatedItems"}
"""With these keywords, everything that applies to the same value is evaluated again to see what it covers."""
_HEAVY_WEIGHT = 20
"""The cost, in ordinary parts, of a part that compares whole values other than strings."""
_DIVISION_WEIGHT = 50
"""The cost of a part that divides numbers, with all their digits."""
_LONG_DIVISION_WEIGHT = 1_000
"""The cost of a division whose divisor itself has very many digits."""
MAX_CHAIN = 100
"""The longest chain of parts that may apply to one value. The validator's stack needs a frame for each, at each level of a value."""

# Between these, a divisor has few digits when it is written out in full, which is how the validator divides.
_SHORT_NUMBERS = (1e-10, 1e16)

AppliesTo = Literal["same", "field", "fields", "item", "items"]


class InvalidReference(ValueError):
    """A reference that leads out of the schema, to nothing, or back to itself on the same value."""


class Edge(NamedTuple):
    """One part that another applies: to the same value, to one of its fields or items, or to all of them."""

    where: AppliesTo
    name: str | int
    part: Any


@dataclass(frozen=True, slots=True)
class SchemaCost:
    """The parts of one schema, and how much work they cause.

    `spread` is the maximum number of parts applied to one value, going through each cycle once; `load` is the same weighted by the
    cost of each part, `patterns` how many expressions run there, and `divisions` how many divisions. `longest` is the length of the
    longest chain of parts.
    """

    root: Any
    edges: dict[int, tuple[Edge, ...]]
    spread: int
    load: int
    patterns: int
    divisions: int
    longest: int
    is_cyclic: bool

    def within(self, value: Any, limit: int) -> bool:
        """Return True if the parts are applied at most `limit` times to a value and everything in it, counting every path."""
        counted: dict[tuple[int, int], int] = {}
        try:
            return self._count(self.root, value, counted, limit) <= limit
        except (OverflowError, RecursionError):
            return False

    def _count(self, part: Any, value: Any, counted: dict[tuple[int, int], int], limit: int) -> int:
        # Parts and values are not hashable, so they are known by identity. That is safe as long as both are alive:
        # `root` and the caller hold them. Each pair is counted once and its total kept: the number of paths may be
        # exponential.
        key = (id(part), id(value))
        if key in counted:
            return counted[key]
        # The count itself must not take longer than what it measures.
        if len(counted) > 2 * limit:
            raise OverflowError
        counted[key] = 0  # a cycle that comes back to this part and value counts once
        total = 1
        for edge in self.edges.get(id(part), ()):
            total += sum(self._count(edge.part, inner, counted, limit) for inner in _values_for(edge, value))
        counted[key] = total
        return total


def measure_schema(schema: dict[str, Any] | bool) -> SchemaCost:
    """Return the cost of a schema; raise `InvalidReference` if one of its references cannot be used."""
    edges = _find_edges(schema)
    longest, ways = _measure_chains(edges)
    if longest > MAX_CHAIN:
        raise InvalidReference(f"its parts refer to each other over {longest:,} steps; the limit is {MAX_CHAIN}")
    groups = list(_strong_components(id(schema), edges))
    load = _count_paths(groups, edges, _weigh_parts(schema, edges, _weight_of))
    patterns = _count_paths(groups, edges, _weigh_parts(schema, edges, _count_patterns))
    divisions = _count_paths(groups, edges, _weigh_parts(schema, edges, _count_divisions))
    return SchemaCost(
        root=schema,
        edges=edges,
        # `_count_paths` visits a cycle once, and so misses parts inside it that apply each other to the same value more
        # than once. `ways` counts exactly those.
        spread=max(_count_paths(groups, edges, {}), ways),
        load=max(load, ways),
        patterns=max(patterns, ways) if patterns else 0,
        divisions=max(divisions, ways) if divisions else 0,
        longest=longest,
        is_cyclic=_is_cyclic(groups, edges),
    )


def _values_for(edge: Edge, value: Any) -> Iterator[Any]:
    """Yield the values to which a part is applied."""
    if edge.where == "same":
        yield value
    elif isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        if edge.where == "field" and edge.name in fields:
            yield fields[edge.name]
        elif edge.where == "fields":
            yield from fields.values()
    elif isinstance(value, list):
        items = cast("list[Any]", value)
        if edge.where == "item":
            yield from items[cast("int", edge.name) :][:1]
        elif edge.where == "items":
            yield from items


def _find_edges(schema: Any) -> dict[int, tuple[Edge, ...]]:
    """Return the parts that each reachable part applies, by the identity of the part."""
    found: dict[int, tuple[Edge, ...]] = {}
    anchors: dict[str, Any] = {}
    pending = [schema]
    while pending:
        part = pending.pop()
        if not isinstance(part, dict) or id(cast("Any", part)) in found:
            continue
        fields = cast("dict[str, Any]", part)
        # A nested `$id` changes what references below it are relative to, so that they would be resolved differently
        # here and in the validator.
        if fields is not schema and isinstance(fields.get("$id"), str):
            raise InvalidReference("$id is only allowed at the top level")
        edges = (*_applied_parts(fields), *_referenced_parts(fields, schema, anchors))
        # Counted three times: validated once, and walked again for what it covers. An estimate on the safe side.
        again = [edge for edge in edges if edge.where == "same"] if fields.keys() & _UNEVALUATED else ()
        found[id(fields)] = (*edges, *again, *again)
        pending += [edge.part for edge in edges]
    return found


def _applied_parts(fields: dict[str, Any]) -> Iterator[Edge]:
    for key in _SAME_LISTS:
        yield from (Edge("same", "", part) for part in json_list(fields.get(key)))
    for key in _SAME_MAPS:
        yield from (Edge("same", "", part) for part in json_object(fields.get(key)).values())
    yield from (Edge("same", "", fields[key]) for key in _SAME if key in fields)
    yield from (Edge("field", name, part) for name, part in json_object(fields.get("properties")).items())
    yield from (Edge("fields", "", part) for part in json_object(fields.get("patternProperties")).values())
    yield from (Edge("fields", "", fields[key]) for key in _EACH_FIELD if key in fields)
    yield from (Edge("items", "", fields[key]) for key in _EACH_ITEM if isinstance(fields.get(key), dict))
    for key in _ITEM_LISTS:
        yield from (Edge("item", index, part) for index, part in enumerate(json_list(fields.get(key))))
    # Applied to the name of each field; the field itself stands in, which costs the same or more.
    if "propertyNames" in fields:
        yield Edge("fields", "", fields["propertyNames"])


def _referenced_parts(fields: dict[str, Any], schema: Any, anchors: dict[str, Any]) -> Iterator[Edge]:
    for key in _REFERENCES:
        reference = fields.get(key)
        if isinstance(reference, str) and not reference.startswith(_META_SCHEMAS):
            yield Edge("same", "", _resolve_reference(reference, schema, anchors))


def _resolve_reference(reference: str, schema: Any, anchors: dict[str, Any]) -> Any:
    if not reference.startswith("#"):
        raise InvalidReference(f"the reference {reference!r} points outside the schema")
    if reference in ("#", "#/") or not isinstance(schema, dict):
        return schema
    if reference.startswith("#/"):
        return _resolve_pointer(reference, cast("Any", schema))
    if not anchors:
        anchors.update(_find_anchors(schema))
    if reference[1:] not in anchors:
        raise InvalidReference(f"the reference {reference!r} points to nothing")
    return anchors[reference[1:]]


def _resolve_pointer(reference: str, schema: Any) -> Any:
    from urllib.parse import unquote

    part = schema
    for step in unquote(reference[2:]).split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(part, dict) and name in part:
            part = cast("dict[str, Any]", part)[name]
        elif (
            isinstance(part, list) and name.isdecimal() and len(name) < 10 and int(name) < len(cast("list[Any]", part))
        ):
            part = cast("list[Any]", part)[int(name)]
        else:
            raise InvalidReference(f"the reference {reference!r} points to nothing")
    return part


def _find_anchors(schema: Any) -> Iterator[tuple[str, Any]]:
    pending = [schema]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            fields = cast("dict[str, Any]", part)
            yield from ((fields[key], fields) for key in _ANCHORS if isinstance(fields.get(key), str))
            pending += fields.values()
        elif isinstance(part, list):
            pending += cast("list[Any]", part)


def _count_paths(groups: list[list[int]], edges: dict[int, tuple[Edge, ...]], weights: dict[int, int]) -> int:
    """Return the number of paths from the top to any part, each weighted by the part (1 by default).

    Parts that lead to each other form one group, which is visited once.
    """
    # Groups come after all groups that they lead to, so each total is complete when it is needed, and the top comes
    # last.
    spread: dict[int, int] = {}
    for members in groups:
        inside = set(members)
        targets = [id(edge.part) for member in members for edge in edges.get(member, ()) if id(edge.part) not in inside]
        total = sum(weights.get(one, 1) for one in members) + sum(spread[target] for target in targets)
        spread.update(dict.fromkeys(members, total))
    return spread[groups[-1][0]]


def _is_cyclic(groups: list[list[int]], edges: dict[int, tuple[Edge, ...]]) -> bool:
    """Return True if parts refer to themselves."""
    return any(
        id(edge.part) in inside for inside in map(set, groups) for member in inside for edge in edges.get(member, ())
    )


def _weigh_parts(
    schema: Any, edges: dict[int, tuple[Edge, ...]], weigh: Callable[[dict[str, Any]], int]
) -> dict[int, int]:
    """Return the weight of each part, by its identity."""
    parts = (schema, *(edge.part for applied in edges.values() for edge in applied))
    return {id(part): weigh(json_object(part)) for part in parts}


def _weight_of(fields: dict[str, Any]) -> int:
    is_heavy = not isinstance(fields.get("const", ""), str) or fields.get("uniqueItems") is True
    return (_HEAVY_WEIGHT if is_heavy else 1) + _division_weight(fields.get("multipleOf"))


def _division_weight(divisor: Any) -> int:
    if not isinstance(divisor, int | float):
        return 0
    return _DIVISION_WEIGHT if _SHORT_NUMBERS[0] < divisor < _SHORT_NUMBERS[1] else _LONG_DIVISION_WEIGHT


def _count_divisions(fields: dict[str, Any]) -> int:
    return "multipleOf" in fields


def _count_patterns(fields: dict[str, Any]) -> int:
    return ("pattern" in fields) + ("format" in fields) + len(json_object(fields.get("patternProperties")))


def _measure_chains(edges: dict[int, tuple[Edge, ...]]) -> tuple[int, int]:
    """Return the longest chain of parts that apply to the same value, and the largest number of paths from one of them.

    A part must not apply itself to the value that it is applied to: the validator would never finish.
    """
    graph = {part: [id(edge.part) for edge in applied if edge.where == "same"] for part, applied in edges.items()}
    longest: dict[int, int] = {}
    ways: dict[int, int] = {}
    try:
        for part in TopologicalSorter(graph).static_order():
            targets = graph.get(part, ())
            longest[part] = 1 + max((longest[target] for target in targets), default=0)
            ways[part] = 1 + sum(ways[target] for target in targets)
    except CycleError as error:
        raise InvalidReference("it has a part that refers to itself on the same value") from error
    return max(longest.values(), default=1), max(ways.values(), default=1)


def _strong_components(top: int, edges: dict[int, tuple[Edge, ...]]) -> Iterator[list[int]]:
    """Yield the groups of parts that lead to each other, each after all groups that it leads to: Tarjan's algorithm."""
    # With its own stack instead of recursion: a path through references may be longer than Python's recursion
    # limit.
    order: dict[int, int] = {top: 0}
    low: dict[int, int] = {top: 0}
    done: set[int] = set()
    open_parts = [top]
    path = [(top, iter(edges.get(top, ())))]
    while path:
        here, left = path[-1]
        there = next((id(edge.part) for edge in left), None)
        if there is None:
            path.pop()
            if path:
                low[path[-1][0]] = min(low[path[-1][0]], low[here])
            if low[here] == order[here]:
                members = _pop_component(open_parts, here)
                done.update(members)
                yield members
        elif there not in order:
            order[there] = low[there] = len(order)
            open_parts.append(there)
            path.append((there, iter(edges.get(there, ()))))
        elif there not in done:
            low[here] = min(low[here], order[there])


def _pop_component(open_parts: list[int], first: int) -> list[int]:
    """Remove and return the open parts back to the first of a group."""
    members: list[int] = []
    while not members or members[-1] != first:
        members.append(open_parts.pop())
    return members
