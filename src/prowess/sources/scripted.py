"""A fetcher for tests and demonstrations: returns what a script says, and never uses the network."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from prowess.errors import NotFound, ProwessError
from prowess.skill.package import Package
from prowess.sources.fetch_context import FetchContext
from prowess.sources.fetched import Fetched, FetchedSkill, SourceState
from prowess.sources.reference import SourceReference

Answer = Fetched | ProwessError | Callable[[], Fetched]


class ScriptedFetcher:
    """Fetches from a dictionary of sources, by URL. Change `answers` to change the source; an error is raised as it is.

    An address that is not in it raises `NotFound`, as a repository that does not exist. `fetches` are the addresses that were
    fetched. A source in the state of the last fetch is `unchanged`.
    """

    def __init__(self, answers: Mapping[str, Answer] | None = None) -> None:
        self.answers: dict[str, Answer] = dict(answers or {})
        self.fetches: list[str] = []
        self.before: Callable[[], Awaitable[None]] | None = None
        """Awaited before each answer, for a source that takes its time."""

    async def __call__(
        self, reference: SourceReference, context: FetchContext, last: SourceState | None = None
    ) -> Fetched:
        """Return the answer for an address."""
        del context  # nothing is reached
        self.fetches.append(reference.url)
        if self.before is not None:
            await self.before()
        answer = self.answers.get(reference.url)
        if answer is None:
            raise NotFound(f"Nothing was found at {reference.url}.", hint="Check the address.")
        if isinstance(answer, ProwessError):
            raise answer
        fetched = answer() if callable(answer) else answer
        if last is not None and last.revision and last.revision == fetched.state.revision:
            return Fetched(state=replace(last, checked_at=fetched.state.checked_at), unchanged=True)
        return fetched


def make_fetched(url: str, packages: Mapping[str, Package], *, complete: bool = True) -> Fetched:
    """Return a source with these packages by path. Its revision follows from their files."""
    digests = "\n".join(f"{path} {package.digest}" for path, package in sorted(packages.items()))
    revision = hashlib.sha256(digests.encode()).hexdigest()[:40]
    skills = tuple(FetchedSkill(package=package, path=path) for path, package in packages.items())
    return Fetched(state=SourceState(url=url, revision=revision), skills=skills, complete=complete)
