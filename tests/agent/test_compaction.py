"""A long conversation fits the model's window: results are shortened, then turns left out, and calls keep their results."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.agent import loop, records
from prowess.agent.compaction import MIN_CHARS, cut_text, fit_history, history_limit
from prowess.agent.memory import choose_facts
from prowess.llm.scripted import ScriptedModel
from prowess.storage.conversations import MessageRow

from .turns import calling, end_of, play


def make_turns(sizes: list[list[int]]) -> list[MessageRow]:
    """Return turns with one call for each number, whose result has that many characters."""
    rows: list[MessageRow] = []

    def add(turn: int, role, **fields) -> None:
        rows.append(MessageRow(conversation_id="c", number=len(rows) + 1, turn=turn, role=role, **fields))

    for turn, results in enumerate(sizes, 1):
        add(turn, "user", text=f"Question {turn}")
        for place, size in enumerate(results):
            call = f"{turn}-{place}"
            add(turn, "assistant", calls=[{"id": call, "name": "look", "arguments": {}}])
            add(turn, "tool", call_id=call, name="look", text="x" * size)
        add(turn, "assistant", text=f"Answer {turn}")
    return rows


def test_a_short_conversation_stays_as_it_is():
    rows = make_turns([[10], [20]])

    assert [message.text for message in fit_history(rows, 10_000)] == [row.text for row in rows]


def test_old_results_are_shortened_before_any_turn_is_left_out():
    rows = make_turns([[30_000], *[[100]] * 9])

    messages = fit_history(rows, 10_000)

    assert len(messages) == len(rows)
    assert "left out" in messages[2].text
    assert len(messages[2].text) < 400


def test_the_requests_of_turns_that_are_left_out_are_listed():
    rows = make_turns([[3_000]] * 30)

    messages = fit_history(rows, 12_000)

    assert messages[0].role == "user"
    assert "turns of this conversation are left out" in messages[0].text
    assert "Question 2" in messages[0].text
    assert messages[-1].text == "Answer 30"


@given(st.lists(st.lists(st.integers(0, 30_000), max_size=4), min_size=1, max_size=12), st.integers(MIN_CHARS, 100_000))
def test_every_call_keeps_its_result_and_the_last_turn_stays(sizes, limit):
    rows = make_turns(sizes)

    messages = fit_history(rows, limit)

    calls = [call.id for message in messages for call in message.calls]
    results = [message.call_id for message in messages if message.role == "tool"]
    assert calls == results
    assert messages[-1].text == f"Answer {len(sizes)}"
    assert any(message.text == f"Question {len(sizes)}" for message in messages)
    assert sum(len(message.text) for message in messages) <= max(limit, 300 * len(rows))


def test_the_limit_follows_the_window_and_what_prompt_and_tools_take():
    assert history_limit(10_000, 4_000) == 20_000
    assert history_limit(1_000, 50_000) == MIN_CHARS


def test_a_cut_text_says_how_much_is_left_out():
    assert cut_text("abc", 3) == "abc"
    assert cut_text("abcdef", 3).startswith("abc\n[Shortened: 3 of 6 characters")


def test_facts_that_share_words_come_first_and_all_stay_within_the_limit():
    facts = ["The cat is called Tom.", "Our database is PostgreSQL.", "x" * 5_000]

    assert choose_facts("which database?", facts).splitlines()[0] == "- Our database is PostgreSQL."
    assert len(choose_facts("anything", ["y" * 90] * 100)) <= 4_000


@pytest.mark.anyio
async def test_compaction_never_loses_an_enabled_skill(place):
    place.skill("notes", "Always sign with NOTES.")
    steps = [calling(("enable_skill", {"skill": "notes"})), "On."]
    async with place.open() as prowess:
        conversation = await prowess.agent.start()
        await prowess.sessions.change(conversation.id, window=2_000)
        with ScriptedModel([*steps, *["Fine. " * 800] * 8]) as model:
            await play(prowess.agent.send(conversation.id, "Enable the thing", model=model))
            for n in range(8):
                ended = await end_of(prowess.agent.send(conversation.id, f"Question {n} " + "z" * 500, model=model))

    last = model.requests[-1]
    assert ended.state == "done"
    assert "Always sign with NOTES." in last.messages[0].text
    assert "left out" in last.messages[1].text
    assert len(last.messages) < 10


@pytest.mark.anyio
async def test_the_oldest_turn_that_is_read_is_a_whole_one(place, monkeypatch):
    place.skill("notes")
    steps = [calling(("load_skill", {"skill": "notes"})), "Read.", "Fine.", "Bye."]
    async with place.open() as prowess:
        conversation = await prowess.agent.start()
        with ScriptedModel(steps) as model:
            await play(prowess.agent.send(conversation.id, "Hello", model=model))
            await play(prowess.agent.send(conversation.id, "How are you?", model=model))
            monkeypatch.setattr(records, "HISTORY_MESSAGES", 4)
            await play(prowess.agent.send(conversation.id, "And now?", model=model))
        kept = await prowess.agent.get(conversation.id)

    assert [message.text for message in model.requests[-1].messages[1:]] == ["How are you?", "Fine.", "And now?"]
    assert [message.number for message in kept.messages] == [*range(1, 9)]


@pytest.mark.anyio
async def test_calls_without_number_are_cut_at_the_limit_of_one_answer(place):
    many = calling(*(("list_skills", {"n": n}) for n in range(200)))
    async with place.open() as prowess:
        conversation = await prowess.agent.start()
        with ScriptedModel([many, "Enough."]) as model:
            ended = await end_of(prowess.agent.send(conversation.id, "Hello", model=model))

    assert ended.state == "done"
    assert sum(message.role == "tool" for message in model.requests[1].messages) == loop.MAX_CALLS
