"""Shares: a party that wants too much at once waits for itself, and nobody else does."""

from __future__ import annotations

import asyncio

import pytest

from prowess.threads import KeyedSemaphore


def test_a_party_has_so_many_turns_at_once_and_others_have_theirs():
    async def run() -> None:
        shares, leave = KeyedSemaphore(2), asyncio.Event()
        inside: list[str] = []

        async def work(party: str) -> None:
            async with shares.permit(party):
                inside.append(party)
                await leave.wait()

        tasks = [asyncio.create_task(work(party)) for party in ["a"] * 5 + ["b", "", "", ""]]
        for _ in range(5):
            await asyncio.sleep(0)
        assert sorted(inside) == ["", "", "", "a", "a", "b"]
        leave.set()
        await asyncio.gather(*tasks)
        assert inside.count("a") == 5

    asyncio.run(run())


def test_a_turn_that_fails_is_given_back():
    async def run() -> None:
        shares = KeyedSemaphore(1)
        for _ in range(3):
            with pytest.raises(KeyError):
                async with shares.permit("a"):
                    raise KeyError

    asyncio.run(run())
