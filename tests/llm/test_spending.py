"""What models may cost is set aside before they are asked, and settled after."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from prowess.errors import AnswerUnusable, NotFound, RunFailed, SpendExceeded, TimedOut, Unavailable
from prowess.llm.model import Usage
from prowess.policy.actor import Actor
from prowess.policy.organization import OrgPolicy
from prowess.run.call import Call
from prowess.run.spending import Spending
from prowess.skill.kinds import Instructions
from prowess.skill.model import Skill
from prowess.storage import spend
from prowess.storage.clock import now
from prowess.storage.database import Database, open_database

pytestmark = pytest.mark.anyio


@pytest.fixture
def call(new_call: Callable[..., Call]) -> Callable[..., Call]:
    def make(session: str = "s1", organization: str = "acme", *, per_session: float = 5, per_day: float = 20) -> Call:
        artifact = Instructions(name="Body", content="Do.")
        skill = Skill(slug="a-skill", title="A skill", description="It is one.", artifacts=(artifact,))
        policy = OrgPolicy(spend_per_session_usd=per_session, spend_per_day_usd=per_day)
        return new_call(
            skill, artifact, actor=Actor(name="ann", organization=organization), session=session, policy=policy
        )

    return make


@pytest.fixture
def spending(database: Database) -> Spending:
    return Spending(lambda: database)


@pytest.fixture
def spent(database: Database) -> Callable[..., float]:
    def amount(account: str = "session:s1", organization: str = "acme") -> float:
        with database.read() as connection:
            return spend.spent(connection, organization, account)

    return amount


def today() -> str:
    return f"day:{now()[:10]}"


async def test_what_it_cost_stays_and_the_rest_is_given_back(spending, spent, call):
    async with spending.reserved(call(), 2.0) as reservation:
        assert spent() == spent(today()) == 2.0
        reservation.actual = 0.5

    assert spent() == spent(today()) == pytest.approx(0.5)


async def test_more_than_was_set_aside_is_counted_too(spending, spent, call):
    async with spending.reserved(call(per_session=1), 1.0) as reservation:
        reservation.actual = 3.0

    assert spent() == pytest.approx(3)


@pytest.mark.parametrize("error", [Unavailable, RunFailed, SpendExceeded])
async def test_a_request_that_failed_costs_nothing(spending, spent, error, call):
    with pytest.raises(error):
        await using(spending.reserved(call(), 2.0), error("no"))

    assert spent() == spent(today()) == 0


async def test_an_answer_that_is_of_no_use_costs_what_it_took(spending, spent, call):
    noted = call()
    with pytest.raises(AnswerUnusable):
        await using(spending.reserved(noted, 2.0), AnswerUnusable("no", tokens=(1_000, 50), cost=0.5))

    assert spent() == spent(today()) == pytest.approx(0.5)
    assert (noted.notes.usage, noted.notes.cost) == (Usage(input_tokens=1_000, output_tokens=50, requests=1), 0.5)


async def test_an_answer_that_is_of_no_use_costs_no_more_than_was_set_aside(spending, spent, call):
    noted = call()
    with pytest.raises(AnswerUnusable):
        await using(spending.reserved(noted, 2.0), AnswerUnusable("no", tokens=(10**6, 50), cost=50.0))

    assert spent() == spent(today()) == noted.notes.cost == 2.0


async def test_where_it_is_not_known_what_such_an_answer_took_all_of_it_stays_spent(spending, spent, call):
    noted = call()
    with pytest.raises(AnswerUnusable):
        await using(spending.reserved(noted, 2.0), AnswerUnusable("no"))

    assert spent() == spent(today()) == 2.0
    assert (noted.notes.usage, noted.notes.cost) == (Usage(), None)


async def test_what_such_an_answer_took_is_noted_where_it_has_no_price(spending, spent, call):
    noted = call()
    with pytest.raises(AnswerUnusable):
        await using(spending.reserved(noted, None), AnswerUnusable("no", tokens=(10, 5)))

    assert noted.notes.usage == Usage(input_tokens=10, output_tokens=5, requests=1)
    assert spent() == 0


@pytest.mark.parametrize("error", [TimedOut("late"), asyncio.CancelledError(), NotFound("odd"), KeyError("x")])
async def test_a_request_that_may_have_been_answered_stays_spent(spending, spent, error, call):
    with pytest.raises(type(error)):
        await using(spending.reserved(call(), 2.0), error)

    assert spent() == spent(today()) == 2.0


async def using(reserved, error: BaseException) -> None:
    async with reserved:
        raise error


async def test_a_cost_that_is_not_known_afterwards_is_the_estimate(spending, spent, call):
    async with spending.reserved(call(), 2.0):
        pass

    assert spent() == 2.0


@pytest.mark.parametrize("amount", [None, 0, 0.0])
async def test_what_has_no_price_touches_no_purse(database, spent, amount, call):
    touched: list[object] = []

    def records() -> Database:
        touched.append(database)
        return database

    async with Spending(records).reserved(call(per_session=0, per_day=0), amount) as reservation:
        reservation.actual = 3.0

    assert (touched, reservation.held) == ([], 0)
    assert spent() == spent(today()) == 0


async def test_over_the_cap_of_a_session_it_says_what_is_gone_and_who_allows_more(spending, spent, call):
    async with spending.reserved(call(), 4.5):
        pass

    with pytest.raises(
        SpendExceeded, match=r"\$4\.5000 of \$5 is used in this session, and this request may cost \$0\.7500"
    ) as caught:
        await using(spending.reserved(call(), 0.75), AssertionError())

    assert "prowess policy set spend_per_session_usd" in caught.value.hint
    assert spent() == spent(today()) == 4.5


async def test_over_the_cap_of_a_day_other_sessions_are_refused_too(spending, spent, call):
    async with spending.reserved(call("s1", per_day=6), 4):
        pass

    with pytest.raises(SpendExceeded, match="today") as caught:
        await using(spending.reserved(call("s2", per_day=6), 3), AssertionError())

    assert "spend_per_day_usd" in caught.value.hint
    assert (spent("session:s2"), spent(today())) == (0, 4)


async def test_organizations_and_runs_without_a_session_have_purses_of_their_own(spending, spent, call):
    first, other, outside = call("s1", per_day=6), call("s1", "other", per_day=6), call("", per_day=6)
    async with spending.reserved(first, 5), spending.reserved(other, 5), spending.reserved(outside, 1):
        pass

    assert (spent(today()), spent(today(), "other"), spent("session:s1", "other"), spent("session:")) == (6, 5, 5, 0)


async def test_a_cap_of_nothing_lets_nothing_through_that_costs(spending, call):
    with pytest.raises(SpendExceeded):
        await using(spending.reserved(call(per_session=0), 0.000_001), AssertionError())


async def test_a_cap_can_be_used_up_to_the_last_cent(spending, spent, call):
    for _ in range(10):
        async with spending.reserved(call(per_session=1), 0.1):
            pass

    assert spent() == pytest.approx(1)
    with pytest.raises(SpendExceeded):
        await using(spending.reserved(call(per_session=1), 0.01), AssertionError())


async def test_whoever_is_cancelled_while_setting_aside_gets_it_back(database, spent, call):
    started, go_on = threading.Event(), threading.Event()

    def records() -> Database:
        started.set()
        go_on.wait(20)
        return database

    task = asyncio.ensure_future(using(Spending(records).reserved(call(), 2.0), AssertionError()))
    await asyncio.to_thread(started.wait, 20)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    go_on.set()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert spent() == spent(today()) == 0


async def test_a_bill_that_cannot_be_written_does_not_cost_the_answer(database, caplog, call):
    class Failing:
        location, url = "", ""
        writes = 0

        @contextmanager
        def write(self):
            self.writes += 1
            if self.writes > 1:
                raise Unavailable("The disk is full.")
            with database.write() as connection:
                yield connection

    records = Failing()
    async with Spending(lambda: records).reserved(call(), 2.0) as reservation:
        reservation.actual = 0.5

    assert records.writes == 2
    assert "The disk is full" in caplog.text


def test_however_many_set_aside_at_once_no_purse_is_filled_above_its_cap(database):
    sessions = [f"session:s{number}" for number in range(4)]

    def work(number: int) -> list[str]:
        full: list[str] = []
        for step in range(25):
            limits = {"day:2026-03-01": 10.0, sessions[(number + step) % 4]: 3.0}
            with database.write() as connection:
                found = spend.reserve(connection, "acme", limits, 0.3)
                if found is None and step % 5 == 0:
                    spend.settle(connection, "acme", limits, -0.1)
            full.append(found or "")
        return full

    with ThreadPoolExecutor(8) as pool:
        outcomes = [found for result in pool.map(work, range(8)) for found in result]

    with database.read() as connection:
        day = spend.spent(connection, "acme", "day:2026-03-01")
        each = [spend.spent(connection, "acme", account) for account in sessions]
    assert day == pytest.approx(sum(each))
    assert 9.7 - 0.3 <= day <= 10 + spend.TOLERANCE
    assert max(each) <= 3 + spend.TOLERANCE
    assert outcomes.count("") >= 33
    assert set(outcomes) <= {"", "day:2026-03-01", *sessions}


def test_databases_that_are_opened_several_times_share_the_purses(database_url, database):
    others = [open_database(database_url) for _ in range(3)]

    def work(opened: Database) -> int:
        done = 0
        for _ in range(20):
            with opened.write() as connection:
                done += spend.reserve(connection, "", {"day:2026-03-01": 1.0}, 0.05) is None
        return done

    try:
        with ThreadPoolExecutor(4) as pool:
            assert sum(pool.map(work, [database, *others])) == 20
    finally:
        for opened in others:
            opened.close()


async def test_requests_at_once_stay_within_the_cap(spending, spent, call):
    async def one() -> bool:
        try:
            async with spending.reserved(call(per_session=1), 0.25) as reservation:
                await asyncio.sleep(0)
                reservation.actual = 0.25
        except SpendExceeded:
            return False
        return True

    done = await asyncio.gather(*(one() for _ in range(16)))

    assert sum(done) == 4
    assert spent() == pytest.approx(1)
