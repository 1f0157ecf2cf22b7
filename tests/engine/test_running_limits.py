"""What runs may do, cost and leave behind: the gate, limits, withheld values, plugins, other users."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from prowess.errors import ApprovalRequired, AssertionFailed, NotFound, SpendExceeded, TimedOut, Unavailable
from prowess.llm.model import Reply, Request, Usage
from prowess.llm.scripted import ScriptedModel
from prowess.plugins import Plugin
from prowess.policy.actor import Actor, agent_of, local_person
from prowess.run.call import Call, Output
from prowess.run.request import RunRequest, Step

pytestmark = pytest.mark.anyio


async def test_an_agent_runs_its_own_persons_skills_at_once_and_asks_where_the_policy_says_so(place, greeter):
    greeter(place)
    person = local_person("ann")
    agent = agent_of(person, name="helper")
    async with place.open(person) as prowess:
        model = ScriptedModel(["One.", "Two.", "Three."])
        await prowess.as_actor(agent).run("greeter", {"name": "A"}, artifacts="greet", model=model)
        await prowess.policy.set("skill_enablement_policy", "prompt-user")
        with pytest.raises(ApprovalRequired) as asked:
            await prowess.as_actor(agent).run("greeter", {"name": "A"}, artifacts="greet", model=model)
        await prowess.approvals.resolve(asked.value.approval_id, approved=True)
        for _ in range(2):  # the yes lasts as long as the bytes do
            await prowess.as_actor(agent).run("greeter", {"name": "A"}, artifacts="greet", model=model)
        greeter(place, **{"prompts/greet.j2": "Insult {{ name }}."})
        await prowess.skills.reload()
        with pytest.raises(ApprovalRequired):
            await prowess.as_actor(agent).run("greeter", {"name": "A"}, artifacts="greet", model=model)


async def test_a_skill_can_have_a_person_asked_before_an_agent_runs_it(place, greeter):
    greeter(place, sidecar=greeter.sidecar + "policy:\n  requires_approval: true\n")
    person = local_person("ann")
    async with place.open(person) as prowess:
        with pytest.raises(ApprovalRequired):
            await prowess.as_actor(agent_of(person)).run("greeter", artifacts="greet", model=ScriptedModel([]))
        result = await prowess.run("greeter", {"name": "A"}, artifacts="greet", model=ScriptedModel(["Hi."]))
    assert result.ok


async def test_a_role_that_does_not_run_is_refused(place, greeter):
    from prowess.errors import Refused

    greeter(place)
    person = local_person("ann")
    async with place.open(person) as prowess:
        with pytest.raises(Refused, match="scout"):
            await prowess.as_actor(agent_of(person, role="scout")).run(
                "greeter", artifacts="greet", model=ScriptedModel([])
            )


async def test_a_skill_can_shorten_its_time_and_never_lengthen_it(place, greeter, waiting):
    greeter(place, sidecar=greeter.sidecar + "policy: {timeout_seconds: 0.05}\n")
    async with place.open() as prowess:
        with pytest.raises(TimedOut, match=r"0\.05 seconds"):
            await prowess.run("greeter", {"name": "Ada"}, artifacts="greet", model=waiting, timeout=60)


async def test_a_skill_says_what_its_traces_may_hold_and_what_it_produces(place, greeter, traces):
    said = "observability: {redact_fields: [name], log_output: false}\nproduces_artifacts: [{name: greeting.txt}]\n"
    greeter(place, sidecar=greeter.sidecar + said)
    async with place.open() as prowess:
        result = await prowess.run("greeter", {"name": "Ada"}, artifacts="greet", model=ScriptedModel(["Hello."]))
        [trace] = await traces(prowess)
    assert (trace.inputs, trace.rendered_input, trace.raw_output) == ({"name": "[withheld]"}, None, None)
    [produced] = result.produced
    assert (produced.name, produced.media_type, produced.content) == ("greeting.txt", "text/plain", "Hello.")


async def test_what_is_withheld_is_nowhere_in_the_trace(place, greeter, traces):
    greeter(place, sidecar=greeter.sidecar + "observability: {redact_fields: [name]}\n")
    async with place.open() as prowess:
        model = ScriptedModel(["Hello, Ada Lovelace!"])
        result = await prowess.run("greeter", {"name": "Ada Lovelace"}, artifacts="greet", model=model)
        [trace] = await traces(prowess)
    assert result.text == "Hello, Ada Lovelace!"
    assert trace.rendered_input == "Greet [redacted]."
    assert "Lovelace" not in str(trace)


async def test_a_session_lends_its_model_and_the_trace_names_the_session(place, tmp_path, greeter, traces):
    greeter(place)
    script = tmp_path / "answers.json"
    script.write_text(json.dumps(["Hi."]))
    async with place.open() as prowess:
        session = await prowess.sessions.open("talk", model=f"scripted:{script}")
        result = await prowess.run("greeter", {"name": "Ada"}, artifacts="greet", session=session)
        [trace] = await traces(prowess)
    assert result.text == "Hi."
    assert trace.session_id == session.id


async def test_no_secret_of_the_environment_reaches_a_trace_or_an_error(each_place, greeter, traces):
    secret = "tangerine-9f8e7d6c5b4a"
    greeter(each_place)
    place = replace(each_place, environment={**each_place.environment, "ACME_API_KEY": secret})
    async with place.open() as prowess:
        await prowess.run("greeter", {"name": secret}, artifacts="greet", model=ScriptedModel([f"It is {secret}."]))
        with pytest.raises(Unavailable) as failed:
            await prowess.run(
                "greeter", {"name": "x"}, artifacts="greet", model=ScriptedModel([Unavailable(f"key {secret} refused")])
            )
        assert secret not in str(failed.value)
        rows = await traces(prowess)
    assert len(rows) == 2
    assert secret not in "".join(map(str, rows))


MODULE = '{"template_id": "predict"}'
WORKER = "title: W\nartifacts:\n- {path: dspy/work.json, kind: dspy_module, name: work, fallback: greet}\n"


class Shouting:
    """A handler that a plugin could bring."""

    kind = "dspy_module"

    async def run(self, call: Call) -> Output:
        return Output(kind="dspy_module", text=call.artifact.content.upper(), data={"loud": call.inputs["word"]})


async def test_a_plugin_can_bring_a_handler_and_the_fields_of_its_output_are_inputs_of_the_next(
    place, monkeypatch, greeter
):
    monkeypatch.setattr("prowess.plugins.working_plugins", lambda: [Plugin(name="loud", handlers=(Shouting(),))])
    chain = greeter.sidecar.replace("prompts/greet.j2", "dspy/shout.json").replace(
        "prompt_template\n    name: greet", "dspy_module\n    name: shout\n    fallback: Polite Answer"
    )
    greeter(place, sidecar=chain, **{"dspy/shout.json": MODULE, "prompts/answer.j2": "{{ loud }} {{ shout.loud }}"})
    async with place.open() as prowess:
        with ScriptedModel(["Fine."]) as model:
            await prowess.run("greeter", {"word": "hey"}, artifacts=["shout", "Polite Answer"], model=model)
    assert model.requests[0].messages[-1].text == "hey hey"


async def test_a_handler_that_breaks_is_a_failed_run_and_nothing_else(place, monkeypatch, greeter, traces):
    class Broken:
        kind = "dspy_module"

        async def run(self, _call: Call) -> Output:
            raise ZeroDivisionError("secret detail")

    monkeypatch.setattr("prowess.plugins.working_plugins", lambda: [Plugin(name="broken", handlers=(Broken(),))])
    greeter(place, sidecar=WORKER, **{"dspy/work.json": MODULE})
    async with place.open() as prowess:
        result = await prowess.runs.attempt(RunRequest(slug="greeter", artifacts=("work",)))
        assert result.error is not None
        assert "ZeroDivisionError" in result.error.message
        assert "secret detail" not in result.error.message
        [trace] = await traces(prowess)
    assert trace.status == "failed"


async def test_another_users_run_is_not_seen(each_place, greeter, traces):
    greeter(each_place)
    ann = Actor(name="ann", organization="acme", user="ann", permissions=frozenset({"skills.read", "skills.run"}))
    bob = Actor(name="bob", organization="acme", user="bob", permissions=frozenset({"skills.read", "skills.run"}))
    async with each_place.open(ann) as prowess:
        result = await prowess.run("greeter", {"name": "A"}, artifacts="greet", model=ScriptedModel(["Hi."]))
        trace = result.parts[0].trace
        assert [row.id for row in await prowess.traces.list()] == [trace]
        assert await prowess.as_actor(bob).traces.list() == []
        with pytest.raises(NotFound) as foreign:
            await prowess.as_actor(bob).traces.get(trace)
        with pytest.raises(NotFound) as unknown:
            await prowess.as_actor(bob).traces.get("00000000-0000-0000-0000-000000000000")
    assert foreign.value.message.replace(trace, "ID") == unknown.value.message.replace(
        "00000000-0000-0000-0000-000000000000", "ID"
    )


class Acting:
    """A handler that does something in the world."""

    kind = "dspy_module"

    def __init__(self) -> None:
        self.runs = 0

    async def run(self, _call: Call) -> Output:
        self.runs += 1
        return Output(kind="dspy_module", data={"done": True})


async def test_a_dry_run_ends_before_anything_acts(place, monkeypatch):
    handler = Acting()
    monkeypatch.setattr("prowess.plugins.working_plugins", lambda: [Plugin(name="acting", handlers=(handler,))])
    place.skill("worker", files={"agents/prowess.yaml": WORKER, "dspy/work.json": MODULE, "prompts/greet.j2": "Hi."})
    async with place.open() as prowess:
        result = await prowess.run("worker", dry_run=True)
        assert (handler.runs, [part.output for part in result.parts]) == (0, [None])
        await prowess.run("worker")
    assert handler.runs == 1


async def test_where_outputs_are_not_kept_they_are_not_kept_as_inputs_or_reasons_either(place, greeter, traces):
    said = "observability: {log_output: false}\n"
    asserted = '    assertions: [{type: pattern, check: match, pattern: "nowhere"}]\n'
    greeter(place, sidecar=greeter.sidecar + asserted + said)
    async with place.open() as prowess:
        model = ScriptedModel(["The secret word is marzipan.", "Marzipan indeed."])
        result = await prowess.runs.attempt(RunRequest(slug="greeter", inputs={"name": "Ada"}, model=model))
        assert isinstance(result.error, AssertionFailed)
        rows = await traces(prowess)
    assert len(rows) == 2
    assert "arzipan" not in "".join(map(str, rows))


@pytest.mark.parametrize("said", ["{redact_fields: name}", "{redact_fields: {name: true}}"], ids=["a name", "no names"])
async def test_fields_to_redact_that_are_no_list_keep_as_much_out(place, said, greeter, traces):
    greeter(place, sidecar=greeter.sidecar + f"observability: {said}\n")
    async with place.open() as prowess:
        await prowess.run("greeter", {"name": "Ada Lovelace"}, artifacts="greet", model=ScriptedModel(["Hello."]))
        [trace] = await traces(prowess)
    assert "Lovelace" not in str(trace)


@pytest.mark.parametrize("name", ["timeout_seconds", "max_cost_usd"])
async def test_a_limit_that_is_no_number_keeps_the_skill_from_running(place, name, greeter):
    greeter(place, sidecar=greeter.sidecar + f"policy: {{{name}: soon}}\n")
    async with place.open() as prowess:
        with pytest.raises(NotFound, match=name):
            await prowess.run("greeter", {"name": "Ada"}, artifacts="greet", model=ScriptedModel([]))


async def test_what_a_skill_may_cost_is_counted_over_all_its_artifacts(place, greeter):
    greeter(place, sidecar=greeter.sidecar + "policy: {max_cost_usd: 0.1}\n")
    async with place.open() as prowess:
        usage = Usage(input_tokens=10, output_tokens=4_000, requests=1)
        model = ScriptedModel([Reply(text="Hi.", usage=usage)] * 2, name="openai:gpt-4o")
        result = await prowess.runs.attempt(RunRequest(slug="greeter", inputs={"name": "Ada"}, model=model))
    assert [part.status for part in result.parts] == ["ok", "refused"]
    assert isinstance(result.error, SpendExceeded)


async def test_a_time_out_of_the_handlers_own_is_not_taken_for_the_end_of_its_time(place, monkeypatch):
    class Impatient:
        kind = "dspy_module"

        async def run(self, _call: Call) -> Output:
            raise TimeoutError("the socket")

    monkeypatch.setattr("prowess.plugins.working_plugins", lambda: [Plugin(name="impatient", handlers=(Impatient(),))])
    place.skill("worker", files={"agents/prowess.yaml": WORKER, "dspy/work.json": MODULE, "prompts/greet.j2": "Hi."})
    async with place.open() as prowess:
        result = await prowess.runs.attempt(RunRequest(slug="worker"))
    assert result.parts[0].status == "failed"
    assert result.error is not None
    assert "TimeoutError" in result.error.message


async def test_a_dry_run_needs_no_model_and_no_key(place, greeter):
    greeter(place, **{"prompts/greet.anthropic.j2": "Dear Claude, greet {{ name }}."})
    async with place.open() as prowess:
        plain = await prowess.run("greeter", {"name": "Ada"}, artifacts="greet", dry_run=True)
        named = await prowess.run("greeter", {"name": "Ada"}, artifacts="greet", model="claude-haiku-5-5", dry_run=True)
    assert plain.parts[0].sent[0].request.messages[-1].text == "Greet Ada."
    assert named.parts[0].sent[0].model == "anthropic:claude-haiku-5-5"


async def test_a_watcher_that_fails_fails_no_run(place, greeter, traces):
    greeter(place)

    def broken(_step: Step) -> None:
        raise BrokenPipeError

    async with place.open() as prowess:
        model = ScriptedModel(["A long answer that comes in several pieces, one after the other."])
        result = await prowess.run("greeter", {"name": "Ada"}, artifacts="greet", model=model, on_step=broken)
        [trace] = await traces(prowess)
    assert result.ok
    assert trace.status == "ok"


async def test_what_a_request_may_cost_stays_spent_where_nobody_says_what_it_did(place, greeter):
    greeter(place, sidecar=greeter.sidecar + "policy: {max_cost_usd: 0.1}\n")
    silent = Silent()
    async with place.open() as prowess:
        result = await prowess.runs.attempt(RunRequest(slug="greeter", inputs={"name": "Ada"}, model=silent))
    assert [part.status for part in result.parts] == ["ok", "refused"]
    assert result.parts[0].cost is None


class Silent:
    """A model with a price whose server says nothing about tokens."""

    name = "openai:gpt-4o"
    family = "openai"
    structured = True

    async def complete(self, _request: Request) -> Reply:
        return Reply(text="Hi.")

    async def stream(self, request: Request):
        yield await self.complete(request)


GENERATION = """
title: Namer
version: 1.0.0
artifacts:
  - {kind: json_generation, name: names, prompt_id: ask, model: MODEL, output_schema: {type: object}}
  - {path: prompts/ask.j2, kind: prompt_template, name: ask}
"""


async def test_a_skill_may_not_name_a_model_whose_price_nobody_knows(place):
    place.skill(
        "namer", files={"agents/prowess.yaml": GENERATION.replace("MODEL", "openai:gpt-99"), "prompts/ask.j2": "?"}
    )
    place = replace(place, environment={**place.environment, "OPENAI_API_KEY": "sk-nothing-1234567890"})
    async with place.open() as prowess:
        result = await prowess.runs.attempt(RunRequest(slug="namer", artifacts=("names",)))
    assert result.parts[0].status == "refused"
    assert "price is unknown" in str(result.error)


async def test_a_request_that_costs_money_has_a_limit_and_its_bill_is_believed_only_so_far(place, greeter, traces):
    greeter(place)
    usage = Usage(input_tokens=10**30, output_tokens=10**30, requests=1)
    async with place.open() as prowess:
        model = ScriptedModel([Reply(text="Hi.", usage=usage)], name="openai:gpt-4o")
        result = await prowess.run("greeter", {"name": "Ada"}, artifacts="greet", model=model)
        [trace] = await traces(prowess)
    assert model.requests[0].max_tokens
    assert result.cost is not None
    assert result.cost < 5
    assert trace.output_tokens == trace.input_tokens == 100_000_000


async def test_what_a_skill_produces_has_a_plain_media_type(place, greeter):
    said = 'produces_artifacts: [{name: out.txt, media_type: "x\\x9b0;owned\\x85Wrote /etc"}]\n'
    greeter(place, sidecar=greeter.sidecar + said)
    async with place.open() as prowess:
        result = await prowess.run("greeter", {"name": "A"}, artifacts="greet", model=ScriptedModel(["H\ud800i."]))
    [produced] = result.produced
    assert (produced.media_type, produced.content) == ("text/plain", "H?i.")


async def test_a_dry_run_tells_the_limit_and_the_words_that_a_model_would_be_sent_too(place):
    files = {"agents/prowess.yaml": GENERATION.replace("model: MODEL, ", ""), "prompts/ask.j2": "Names?"}
    place.skill("namer", files=files)
    async with place.open() as prowess:
        paid = await prowess.run("namer", artifacts="names", model="openai:gpt-4o", dry_run=True)
        own = await prowess.run("namer", artifacts="names", model="ollama:llama3", dry_run=True)
    assert paid.parts[0].sent[0].request.max_tokens == 8_192
    assert paid.parts[0].sent[0].request.messages[-1].text == "Names?"
    assert own.parts[0].sent[0].request.max_tokens is None
    assert "JSON Schema" in own.parts[0].sent[0].request.messages[-1].text
