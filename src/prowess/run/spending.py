"""Spending caps: reserve an amount before a model request, settle the actual cost after it."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from prowess.errors import AnswerUnusable, ProwessError, Refused, RunFailed, SpendExceeded, TimedOut, Unavailable
from prowess.lazy_dataclass import dataclass
from prowess.llm.model import Usage
from prowess.run.call import Call
from prowess.storage import spend
from prowess.storage.clock import now
from prowess.storage.database import Connections
from prowess.threads import offload_to_completion

DAY, SESSION, SHARED = "day", "session", "shared"

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Reservation:
    """A reserved amount; `actual` is the cost, once it is known."""

    amount: float
    held: float = 0.0
    """What is reserved in the database."""
    actual: float | None = None


class Spending:
    """Keeps an organization within its caps, across concurrent requests and processes.

    A reservation is released if the request failed before an answer. An unusable answer costs what it took, at most the
    reserved amount. If the cost is unknown, because the request was cancelled, timed out or its process died, everything stays
    spent: the provider may bill it.
    """

    def __init__(self, records: Callable[[], Connections]) -> None:
        self._records = records

    @asynccontextmanager
    async def reserved(self, call: Call, amount: float | None) -> AsyncGenerator[Reservation]:
        """Reserve an amount while the block runs; raise `SpendExceeded` if a cap has no room for it.

        An unknown price (None) or 0 reserves nothing. The cost of an unusable answer is noted.
        """
        reservation = Reservation(amount=amount or 0.0)
        accounts = _account_names(call) if reservation.amount else {}
        # Stays True until the request is about to be sent; what was reserved by then is released.
        unused = True
        try:
            if accounts:
                # Runs to its end even if the caller is cancelled: otherwise an amount could stay reserved that nobody
                # releases.
                await offload_to_completion(self._reserve, call, accounts, reservation)
            unused = False
            yield reservation
        except AnswerUnusable as error:
            if error.cost is not None:
                reservation.actual = min(error.cost, reservation.held)
            note_unusable(call, error, reservation.actual)
            raise
        # `TimedOut` is a `RunFailed`, but the provider may bill an answer that came too late, so nothing is released.
        except TimedOut:
            raise
        except (Unavailable, RunFailed, Refused):
            unused = True
            raise
        finally:
            actual = reservation.actual
            if actual is None:
                # Unknown cost counts in full: the provider may bill a request that was cancelled.
                actual = 0.0 if unused else reservation.held
            if accounts and actual != reservation.held:
                await offload_to_completion(self._settle, call, accounts, actual - reservation.held)

    def _reserve(self, call: Call, accounts: dict[str, str], reservation: Reservation) -> None:
        policy = call.run.policy
        limits = {DAY: policy.spend_per_day_usd, SESSION: policy.spend_per_session_usd}
        if (shared := call.request.spend_limit) is not None:
            limits[SHARED] = shared.limit
        organization = call.actor.organization
        with self._records().write() as connection:
            capped = {account: limits[kind] for kind, account in accounts.items()}
            full = spend.reserve(connection, organization, capped, reservation.amount)
            before = spend.spent(connection, organization, full) if full else 0.0
        if full:
            kind = next(kind for kind, account in accounts.items() if account == full)
            raise _exceeded(call, kind, limits[kind], before, reservation.amount)
        reservation.held = reservation.amount

    def _settle(self, call: Call, accounts: dict[str, str], difference: float) -> None:
        # The answer is paid for: a database that fails now must not lose it. The reserved amount stays spent.
        try:
            with self._records().write() as connection:
                spend.settle(connection, call.actor.organization, accounts.values(), difference)
        except ProwessError as error:
            _log.warning("The cost of a model request could not be recorded: %s", error)


def note_unusable(call: Call, error: AnswerUnusable, cost: float | None) -> None:
    """Note the tokens and the cost of an answer that cannot be used."""
    notes = call.notes
    if error.tokens is not None:
        read, written = error.tokens
        notes.usage += Usage(input_tokens=read, output_tokens=written, requests=1)
    if cost is not None:
        notes.cost = (notes.cost or 0.0) + cost


def _account_names(call: Call) -> dict[str, str]:
    """Return the names under which the database counts what a call spends, by the kind of limit."""
    # Times are stored in ISO format in UTC, so the first ten characters are the day.
    accounts = {DAY: f"{DAY}:{now()[:10]}"}
    if call.run.session and not call.request.evaluation:
        accounts[SESSION] = f"{SESSION}:{call.run.session}"
    if call.request.spend_limit is not None:
        accounts[SHARED] = call.request.spend_limit.name
    return accounts


def _exceeded(call: Call, kind: str, cap: float, before: float, amount: float) -> SpendExceeded:
    shared = call.request.spend_limit
    if kind == SHARED and shared is not None:
        where, hint = f"by {shared.name.replace(':', ' ', 1)}", shared.hint
    else:
        where = "today" if kind == DAY else "in this session"
        hint = f"An administrator can raise the limit: `prowess policy set spend_per_{kind}_usd N`."
    return SpendExceeded(
        f"Spending limit reached: ${before:.4f} of ${cap:g} is used {where}, and this request may cost ${amount:.4f}.",
        hint=hint,
    )
