"""Many writers at once, on every Store: one wins, the others are told, nothing is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from prowess.catalog.store import Store
from prowess.errors import ProwessError
from prowess.skill.kinds import Example
from prowess.skill.model import Skill
from prowess.skill.package import Package


def test_of_two_writers_exactly_one_wins(store: Store, pack: Callable[..., Package]) -> None:
    first = store.save(pack("release-notes"))

    results = at_once(
        *(lambda n=n: store.save(pack("release-notes", f"Writer {n}."), expected=first.digest) for n in range(4))
    )

    assert sorted(type(result).__name__ for result in results) == ["Conflict", "Conflict", "Conflict", "Skill"]
    (winner,) = [result for result in results if isinstance(result, Skill)]
    assert store.get_skill_by_name("release-notes") == winner
    assert [version.number for version in store.versions("release-notes")] == [1, 2]


def test_of_two_creators_exactly_one_wins(store: Store, pack: Callable[..., Package]) -> None:
    results = at_once(*(lambda n=n: store.save(pack("release-notes", f"Writer {n}.")) for n in range(4)))

    assert sorted(type(result).__name__ for result in results) == ["DuplicateSkill"] * 3 + ["Skill"]
    assert len(store.versions("release-notes")) == 1


def test_writers_who_expect_nothing_lose_nothing(store: Store, pack: Callable[..., Package]) -> None:
    saved = store.save(pack("release-notes"))

    results = at_once(
        *(
            lambda n=n: store.add_artifact(Example(name=f"Case {n}", content=f"{n}", skill_id=saved.id))
            for n in range(3)
        )
    )

    assert [type(result) for result in results] == [Example] * 3
    kept = store.get_artifacts(saved.id, ["example"])
    assert sorted(artifact.content for artifact in kept) == ["0", "1", "2"]
    assert len(store.versions(saved.slug)) == 4


def test_two_imports_at_once_agree(store: Store, pack: Callable[..., Package]) -> None:
    packages = [pack(f"skill-{number}", references_guide="shared") for number in range(40)]

    results = at_once(lambda: store.save_all(packages), lambda: store.save_all(packages[::-1]))

    assert all(item.error is None for saved in results for item in saved)
    assert len(store.list_skills()) == 40
    assert all(len(store.versions(package.name)) == 1 for package in packages)


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """What each call gave, or the ProwessError that it raised, when all begin together."""
    barrier = threading.Barrier(len(calls))
    results: list[Any] = [None] * len(calls)

    def run(place: int, call: Callable[[], Any]) -> None:
        barrier.wait()
        try:
            results[place] = call()
        except ProwessError as error:
            results[place] = error

    threads = [threading.Thread(target=run, args=item) for item in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
