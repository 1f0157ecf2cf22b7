"""Functions that sandboxed code can call: workspace pages, models, other skills; imported as `inklings` or `prowess`."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar
from typing import Any, cast

from pydantic import ConfigDict, ValidationError, validate_call

from prowess.errors import Invalid, NotFound, ProwessError, Refused, Unavailable
from prowess.lazy_dataclass import dataclass
from prowess.llm.model import Message, Reply, Request
from prowess.policy.subject import Trust
from prowess.run.answers import correct_request, output_error, read_answer
from prowess.run.call import Call
from prowess.run.model_client import ModelClient
from prowess.sandbox.protocol import HostFunction
from prowess.skill.model import Skill
from prowess.skill.schema import compile_schema
from prowess.skill.slug import tool_name
from prowess.threads import offload
from prowess.workspace.workspace import Workspace

Refusals = dict[str, ProwessError]
"""Errors of host functions, by the message that the script saw."""


def expose_methods(owner: object, names: Iterable[str], refusals: Refusals) -> dict[str, HostFunction]:
    """Return methods by name, with checked arguments; add the errors that they raise to `refusals`."""
    return {name: functools.partial(_checked, owner, name, refusals) for name in names}


async def _checked(owner: object, name: str, refusals: Refusals, /, *args: Any, **kwargs: Any) -> Any:
    try:
        return await _validated(type(owner), name)(owner, *args, **kwargs)
    except ValidationError as error:
        raise Invalid(f"{name}(): {_describe_errors(error)}.") from None
    except ProwessError as error:
        # Only the text of an error crosses into the sandbox; by it, `explain_failure` finds the error again.
        refusals[f"{error.message} {error.hint}".strip()] = error
        raise


@functools.cache
def _validated(owner: type, name: str) -> Callable[..., Awaitable[Any]]:
    function: Callable[..., Awaitable[Any]] = getattr(owner, name)
    return validate_call(config=ConfigDict(strict=True))(function)


def _describe_errors(error: ValidationError) -> str:
    """Describe invalid arguments without their values."""
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in faults[:3])


MAX_SKILL_DEPTH = 4
"""How deep skills may run each other."""
MAX_CONCURRENT_QUERIES = 8
"""Questions of one call that are asked at the same time."""

HOST_FUNCTION_NAMES = (
    *("workspace_search", "search", "get_page", "get_pages", "get_pages_by_type", "get_tags", "get_references"),
    *("get_history", "llm_query", "llm_query_batched", "run_skill", "checkpoint"),
)
"""Every function that a script can call, except `submit`."""

RunSkill = Callable[[Call, str, Mapping[str, Any]], Awaitable[Any]]
"""Runs another skill for a call, by slug and with parameters, and returns its output."""


async def _as_named(_call: Call, name: str) -> str:
    return name


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillCalls:
    """How a script runs other skills. `locate` returns the slug of the skill with an id, and a slug as it is."""

    run: RunSkill
    locate: Callable[[Call, str], Awaitable[str]] = _as_named


# A context variable follows nested runs through all layers, and concurrent runs have their own.
_depth: ContextVar[int] = ContextVar("depth of skills that run others", default=0)


class HostModule:
    """Makes the host functions of each call."""

    def __init__(
        self,
        models: ModelClient,
        workspace: Workspace,
        skills: SkillCalls | None = None,
        *,
        tenants: Workspace | None = None,
    ) -> None:
        """Serve the pages of the workspace; to members of a server's organizations, those of `tenants`."""
        self.models = models
        self.skills = skills
        self._workspace = workspace
        self._tenants = tenants or workspace

    def pages_of(self, call: Call) -> Workspace:
        """Return the workspace whose pages a call may read."""
        return self._tenants if call.run.actor.is_tenant else self._workspace

    def calls_of(self, call: Call) -> HostFunctions:
        """Return the host functions of a call."""
        return HostFunctions(self, call)


class HostFunctions:
    """The host functions of one call. `expose_methods` checks their arguments against the annotations."""

    def __init__(self, module: HostModule, call: Call) -> None:
        self._module = module
        self._pages = module.pages_of(call)
        self._call = call
        self._receipt = call.notes.receipt
        self.refusals: Refusals = {}

    def functions(self) -> dict[str, HostFunction]:
        """Return the functions by name."""
        return expose_methods(self, HOST_FUNCTION_NAMES, self.refusals)

    async def workspace_search(self, query: str, limit: int = 20) -> Any:
        """Return the pages that match the words, best first."""
        return self._note_pages(await offload(self._pages.workspace_search, query, limit))

    async def search(self, query: str, limit: int = 20) -> Any:
        """Short name of `workspace_search`."""
        return await self.workspace_search(query, limit)

    async def get_page(self, slug: str) -> Any:
        """Return one page with its text."""
        return self._note_pages(await offload(self._pages.get_page, slug))

    async def get_pages(self, slugs: list[str]) -> Any:
        """Return several pages with their text; None for a page that does not exist."""
        return self._note_pages(await offload(self._pages.get_pages, slugs))

    async def get_pages_by_type(self, type: str) -> Any:
        """Return the pages of a type, without their text."""
        return self._note_pages(await offload(self._pages.get_pages_by_type, type))

    async def get_tags(self) -> Any:
        """Return every tag, and how many pages have it."""
        return await offload(self._pages.get_tags)

    async def get_references(self, slug: str) -> Any:
        """Return the pages that a page links to, and those that link to it."""
        return await offload(self._pages.get_references, slug)

    async def get_history(self, slug: str, limit: int = 20) -> Any:
        """Return the commits that changed a page."""
        return await offload(self._pages.get_history, slug, limit)

    async def llm_query(self, prompt: str, max_tokens: int | None = None, schema: dict[str, Any] | None = None) -> Any:
        """Return a model's answer: text, or with a `schema` the data in it, which satisfies that schema."""
        [answer] = await self.llm_query_batched([prompt], max_tokens, schema)
        return answer

    async def llm_query_batched(
        self, prompts: list[str], max_tokens: int | None = None, schema: dict[str, Any] | None = None
    ) -> list[Any]:
        """Return a model's answers to several questions, asked concurrently."""
        validator = None if schema is None else compile_schema(schema)
        requests = [_request(prompt, max_tokens, schema) for prompt in prompts]
        replies = await self._ask(requests)
        if validator is None:
            return [reply.text for reply in replies]
        read = [await read_answer(reply.text, validator) for reply in replies]
        again = [index for index, (_, errors) in enumerate(read) if errors]
        if again:
            corrections = [correct_request(requests[index], replies[index].text, read[index][1]) for index in again]
            for index, reply in zip(again, await self._ask(corrections), strict=True):
                read[index] = await read_answer(reply.text, validator)
        failed = next((errors for _, errors in read if errors), ())
        if failed:
            raise output_error(
                self._call, failed, attempts=2, hint="Simplify the question, or use a stronger model with `--model`."
            )
        return [data for data, _ in read]

    async def _ask(self, requests: list[Request]) -> list[Reply]:
        self._count(len(requests))
        replies = await self._module.models.ask_all(
            self._call, requests, purpose="answer", at_once=MAX_CONCURRENT_QUERIES
        )
        failed = [reply for reply in replies if isinstance(reply, ProwessError)]
        if failed:
            raise failed[0]
        if requests:
            self._receipt.touch("models", self._call.notes.model)
        return [reply for reply in replies if not isinstance(reply, ProwessError)]

    async def run_skill(self, skill_id: str, params: dict[str, Any] | None = None) -> Any:
        """Return the output of another skill, named by its slug or its id."""
        skills = self._module.skills
        if skills is None:
            raise Unavailable(
                "Running other skills from a script is not available here.",
                hint="Run the other skill first, and pass its output as an input.",
            )
        # First: `allowed-tools` and receipts have the names of skills.
        skill_id = await skills.locate(self._call, skill_id)
        depth = _depth.get()
        try:
            check_may_run(self._call.skill, skill_id, self._call.run.trust)
            _check_depth(depth, skill_id)
        except Refused:
            self._receipt.refuse("skills", skill_id)
            raise
        before = _depth.set(depth + 1)
        # The skill counts as used even if its run fails, but not if it does not exist.
        note = self._receipt.touch
        try:
            return await skills.run(self._call, skill_id, params or {})
        except NotFound:
            note = self._receipt.refuse
            raise
        finally:
            note("skills", skill_id)
            _depth.reset(before)

    async def checkpoint(self, value: Any = None) -> None:
        """Report how far the script is; the journal is stored at this point."""
        self._call.enter("CHECKPOINT", value=value)

    def _note_pages(self, pages: Any) -> Any:
        """Note the pages on the receipt, and return them."""
        listed: list[Any] = cast("list[Any]", pages) if isinstance(pages, list) else [pages]
        for page in listed:
            if isinstance(page, Mapping):
                self._receipt.touch("pages", str(cast("Mapping[str, Any]", page).get("slug", "")))
        return cast("Any", pages)

    def _count(self, questions: int) -> None:
        """Count questions. A nested run counts each one when it is sent, in `ModelClient`."""
        if not self._call.run.is_nested:
            self._call.run.questions.count(questions)


def check_may_run(skill: Skill, slug: str, trust: Trust) -> None:
    """Raise `Refused` unless a skill may run another one.

    A local skill without `allowed-tools` may run any skill. One from elsewhere, or written by an agent, may run only those
    that it names, because the person who approved it saw these names.
    """
    # The slug may have a scope before it; `allowed-tools` has bare names.
    tool = tool_name(slug.rpartition(":")[2])
    says_nothing = trust == "local" and not skill.allowed_tools
    if not says_nothing and not {"run_skill", "skill_*", tool} & set(skill.allowed_tools):
        raise Refused(
            f"{skill.slug!r} may not run the skill {slug[:60]!r}: its `allowed-tools` does not include it.",
            hint=f"Add `{tool}` to its `allowed-tools`, or `run_skill` to allow all skills.",
        )


def _check_depth(depth: int, slug: str) -> None:
    if depth >= MAX_SKILL_DEPTH:
        raise Refused(
            f"Nested runs exceeded the limit of {MAX_SKILL_DEPTH} levels.",
            hint=f"Run it separately: `prowess run {slug[:60]}`.",
        )


def _request(prompt: str, max_tokens: int | None, schema: dict[str, Any] | None) -> Request:
    return Request(messages=(Message(role="user", text=prompt),), max_tokens=max_tokens, schema=schema)
