"""A dataclass whose methods come late behaves like one of the standard library, before and after its first use."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, asdict, field, fields, is_dataclass, replace
from typing import Any, ClassVar

import pytest

from prowess.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Has fields of every sort."""

    known: ClassVar[int] = 7

    name: str
    tags: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list[str])
    hidden: int = field(default=3, init=False, repr=False, compare=False)
    length: int = field(init=False)

    def __post_init__(self) -> None:
        """Set what is derived from the name."""
        object.__setattr__(self, "length", len(self.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Town(Place):
    """Adds a field to those of its base."""

    people: int = 0


@dataclass(slots=True)
class Counter:
    """Can be changed, and is made with positions."""

    number: int
    step: int = 1


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Handle:
    """Is compared by identity."""

    number: int


@dataclass(frozen=True, slots=True)
class Folded:
    """Compares in its own way."""

    text: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Folded) and self.text.lower() == other.text.lower()

    def __hash__(self) -> int:
        return hash(self.text.lower())


def test_an_instance_has_its_values_defaults_and_derived_values() -> None:
    place = Place(name="here")

    assert (place.name, place.tags, place.notes, place.hidden, place.length, place.known) == ("here", (), [], 3, 4, 7)
    assert Place(name="there").notes is not place.notes
    assert repr(place) == "Place(name='here', tags=(), notes=[], length=4)"


def outcome(kind: Any, *given: int, **named: object) -> tuple[str, list[tuple[Any, ...]]]:
    """Return the instance or the error, and the parameters of the class."""
    try:
        shown = repr(kind(*given, **named))
    except TypeError as error:
        shown = str(error)
    parameters = inspect.signature(kind).parameters.values()
    return shown, [(one.name, one.kind, one.annotation, one.default is one.empty) for one in parameters]


@pytest.mark.parametrize("frozen", [True, False])
def test_an_instance_is_made_with_the_same_arguments_as_one_of_the_standard_library(frozen: bool) -> None:
    class Plain:
        """Takes one value by position and three by name."""

        first: int
        named: str = field(kw_only=True)
        tags: tuple[str, ...] = field(default=("a",), kw_only=True)
        notes: list[str] = field(default_factory=list[str], kw_only=True)
        hidden: int = field(default=3, init=False)

    options: dict[str, Any] = {"frozen": frozen, "slots": True}
    made: list[Any] = [
        make(**options)(type("Plain", (), dict(vars(Plain)))) for make in (dataclass, dataclasses.dataclass)
    ]
    late, usual = made

    for given, named in [((1,), {"named": "b", "notes": ["c"]}), ((1,), {"named": "b"}), ((), {}), ((1, 2), {})]:
        assert outcome(late, *given, **named) == outcome(usual, *given, **named)
    assert outcome(late, 1, named="b", hidden=4) == outcome(usual, 1, named="b", hidden=4)
    assert late(1, named="b").notes is not late(1, named="b").notes


def test_values_compare_and_hash_by_their_fields() -> None:
    assert Town(name="a", people=1) == Town(name="a", people=1) != Town(name="a", people=2)
    assert Place(name="a") != Town(name="a")
    assert hash(Place(name="a", notes=())) == hash(Place(name="a", notes=()))  # type: ignore[arg-type]
    assert Folded("A") == Folded("a")
    assert len({Folded("A"), Folded("a")}) == 1
    assert Handle(1) != Handle(1)
    assert weakref.ref(handle := Handle(1))() is handle


def test_a_frozen_value_refuses_changes_and_unknown_names() -> None:
    town = Town(name="a")
    for change in (
        lambda: setattr(town, "people", 1),
        lambda: delattr(town, "people"),
        lambda: setattr(town, "new", 1),
    ):
        with pytest.raises(FrozenInstanceError):
            change()
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        Place(name="a", colour="red")  # type: ignore[call-arg]
    assert not hasattr(town, "__dict__")


def test_a_value_that_can_be_changed_is_not_hashable() -> None:
    counter = Counter(1)
    counter.number += counter.step

    assert counter == Counter(number=2)
    with pytest.raises(TypeError):
        hash(counter)
    match counter:
        case Counter(number, step):
            assert (number, step) == (2, 1)


def test_the_functions_of_the_standard_library_work_before_the_first_instance() -> None:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Fresh(Place):
        """Not used yet."""

        colour: str = "red"

    assert is_dataclass(Fresh)
    assert [one.name for one in fields(Fresh)] == ["name", "tags", "notes", "hidden", "length", "colour"]
    assert dataclasses.asdict(replace(Fresh(name="a"), name="bc"))["length"] == 2
    assert asdict(Counter(1)) == {"number": 1, "step": 1}


def pickled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, pickled])
def test_a_copy_equals_the_value(again: Any) -> None:
    for value in (Town(name="a", tags=("b",), people=3), Counter(4), Place(name="c")):
        assert again(value) == value


def test_a_value_can_be_unpickled_in_a_process_that_has_not_used_its_class() -> None:
    from prowess.storage.owner import Owner

    data = pickle.dumps(Owner(organization_id="o", user_id="u"))
    program = "import pickle, sys; print(pickle.loads(sys.stdin.buffer.read()))"
    shown = subprocess.run([sys.executable, "-c", program], input=data, capture_output=True, check=True)
    assert shown.stdout.decode().strip() == repr(Owner(organization_id="o", user_id="u"))


def test_threads_that_use_a_class_first_at_once_all_get_an_instance() -> None:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Fresh:
        """Not used yet."""

        number: int
        name: str = "a"

    with ThreadPoolExecutor(8) as threads:
        made = [one.result() for one in [threads.submit(Fresh, number=number) for number in range(64)]]
    assert made == [Fresh(number=number) for number in range(64)]
