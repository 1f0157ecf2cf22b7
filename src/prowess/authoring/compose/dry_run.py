"""Run the code of a draft once in the sandbox, with example inputs. Its host functions are answered by a stand-in.

The stand-in touches nothing: no page, no model and no other skill. It takes the same arguments as the real functions and
answers in the same shapes, so that code which would fail on them fails here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from prowess.errors import Invalid, Problem, Unavailable
from prowess.handlers.host_functions import HOST_FUNCTION_NAMES, Refusals, expose_methods
from prowess.handlers.sandbox_failures import CodeLabel, explain_failure
from prowess.sandbox.protocol import Sandbox, SandboxLimits
from prowess.sandbox.script import script_from_template
from prowess.skill.json_values import json_object
from prowess.skill.kinds import JsonObject
from prowess.skill.schema import compile_schema

DRY_RUN_LIMITS = SandboxLimits(fuel=5_000_000_000, seconds=5.0, calls=50)
"""About a second of CPU: drafts are tried while a person waits."""

DRY_RUN_CODES = {
    "dry-run-failed": "The code failed in the dry run, or hit a limit of the sandbox.",
    "dry-run-skipped": "The code was not run, because the sandbox is not available here.",
}
_SHOWN = 2_000
_PAGE: JsonObject = {
    "slug": "example-page",
    "title": "Example page",
    "type": "note",
    "tags": ["example"],
    "path": "example-page.md",
}
_TEXT = "An example page. It links to [[other-page]]."


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """How a dry run ended, which host functions it called, and what it submitted or printed, cut."""

    ok: bool
    problems: tuple[Problem, ...] = ()
    calls: tuple[str, ...] = ()
    output: str = ""

    def as_json(self) -> JsonObject:
        """Return it as JSON, without the problems, which stand with the others."""
        return {"ok": self.ok, "calls": list(self.calls), "output": self.output}


async def try_code(code: str, inputs: Mapping[str, Any], sandbox: Sandbox, *, field: str) -> DryRun:
    """Run a code template in the sandbox. Never raises for what the code does; `field` names it in problems."""
    stand_in, refusals = StandIn(), Refusals()
    # In a run of the whole skill, the answer to the prompt is among the inputs.
    values = {"previous": "An example answer.", "prompt": "An example answer.", **inputs}
    try:
        script = script_from_template(code, values)
        functions = expose_methods(stand_in, HOST_FUNCTION_NAMES, refusals)
        ran = await sandbox.run(script, functions, DRY_RUN_LIMITS)
    except Invalid as error:
        return DryRun(ok=False, problems=error.problems or (_failed(error.message, error.hint, field),))
    except Unavailable as error:
        skipped = Problem(
            code="dry-run-skipped",
            severity="warning",
            message=f"The code was not run: {error.message}",
            hint=error.hint,
            field=field,
        )
        return DryRun(ok=True, problems=(skipped,))
    calls = tuple(dict.fromkeys(stand_in.calls))
    if ran.ended != "done":
        error = explain_failure(CodeLabel(called="the code"), ran, DRY_RUN_LIMITS, refusals)
        line = ran.error.line if ran.error else None
        return DryRun(ok=False, problems=(_failed(error.message, error.hint, field, line),), calls=calls)
    output = str(ran.result) if ran.submitted else ran.stdout
    return DryRun(ok=True, calls=calls, output=output[:_SHOWN])


def _failed(message: str, hint: str, field: str, line: int | None = None) -> Problem:
    return Problem(
        code="dry-run-failed", severity="error", message=f"Dry run: {message}", hint=hint, field=field, line=line
    )


class StandIn:
    """Answers the host functions of a script with examples. The signatures are those of `HostFunctions`."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def workspace_search(self, query: str, limit: int = 20) -> Any:
        """Return an example page."""
        return self._answer("workspace_search", [{**_PAGE, "score": 1.0, "snippet": query[:200]}][:limit])

    async def search(self, query: str, limit: int = 20) -> Any:
        """Return an example page."""
        return await self.workspace_search(query, limit)

    async def get_page(self, slug: str) -> Any:
        """Return an example page under this slug."""
        return self._answer("get_page", _page(slug))

    async def get_pages(self, slugs: list[str]) -> Any:
        """Return an example page for each slug."""
        return self._answer("get_pages", [_page(slug) for slug in slugs])

    async def get_pages_by_type(self, type: str) -> Any:
        """Return an example page of this type."""
        return self._answer("get_pages_by_type", [{**_PAGE, "type": type}])

    async def get_tags(self) -> Any:
        """Return an example tag."""
        return self._answer("get_tags", [{"tag": "example", "pages": 1}])

    async def get_references(self, slug: str) -> Any:
        """Return an example link."""
        return self._answer("get_references", {"slug": slug, "links": [_PAGE], "backlinks": [], "missing": []})

    async def get_history(self, slug: str, limit: int = 20) -> Any:
        """Return an example commit."""
        commit = {"commit": "0" * 40, "at": "2026-01-01T00:00:00+00:00", "author": "Ann", "subject": f"Edit {slug}"}
        return self._answer("get_history", [commit][:limit])

    async def llm_query(self, prompt: str, max_tokens: int | None = None, schema: dict[str, Any] | None = None) -> Any:
        """Return an example answer, which satisfies the schema if there is one."""
        [answer] = await self.llm_query_batched([prompt], max_tokens, schema)
        return answer

    async def llm_query_batched(
        self,
        prompts: list[str],
        max_tokens: int | None = None,  # noqa: ARG002  (the signature of the real function)
        schema: dict[str, Any] | None = None,
    ) -> list[Any]:
        """Return an example answer for each prompt."""
        answer = "An example answer." if schema is None else make_example(schema)
        return self._answer("llm_query", [answer for _ in prompts])

    async def run_skill(self, skill_id: str, params: dict[str, Any] | None = None) -> Any:
        """Return an example output."""
        return self._answer("run_skill", f"An example output of {skill_id} with {len(params or {})} inputs.")

    async def checkpoint(self, value: Any = None) -> None:
        """Do nothing."""
        self._answer("checkpoint", value)

    def _answer(self, name: str, value: Any) -> Any:
        self.calls.append(name)
        return value


def _page(slug: str) -> JsonObject:
    return {**_PAGE, "slug": slug, "path": f"{slug}.md", "fields": {}, "content": _TEXT}


def make_example(schema: JsonObject) -> Any:
    """Return a value that satisfies a JSON Schema of the usual kind; raise `Invalid` if none is found."""
    value = _example_of(schema, 0)
    if not compile_schema(schema).fits(value):
        raise Invalid("The dry run has no example for this schema.", hint="Use type, properties, items and enum.")
    return value


_SCALARS: dict[str, Any] = {"string": "An example.", "integer": 1, "number": 1.0, "boolean": True, "null": None}
_DEEPEST = 8


def _example_of(schema: object, depth: int) -> Any:
    definition = json_object(schema)
    for key in ("const", "default"):
        if key in definition:
            return definition[key]
    if isinstance(definition.get("enum"), list) and definition["enum"]:
        return definition["enum"][0]
    types = definition.get("type")
    # Of several types, as in ["string", "null"], the first.
    kind = next(iter(cast("list[object]", types)), "") if isinstance(types, list) else cast("object", types)
    if kind == "array":
        return [] if depth >= _DEEPEST else [_example_of(definition.get("items"), depth + 1)]
    if kind == "object" or "properties" in definition:
        named = json_object(definition.get("properties")) if depth < _DEEPEST else {}
        return {name: _example_of(one, depth + 1) for name, one in named.items()}
    return _SCALARS.get(kind if isinstance(kind, str) else "", "An example.")
