"""The agent: conversations with a model that finds, enables and uses skills.

A turn has two phases before the model is asked: the skills that fit are found, and it is decided what to do about them.
Then the model answers and calls tools until it is done. Everything is stored step by step, so a turn that waits for an
approval, or whose process died, continues in any other process.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import replace

from prowess.agent.calls import AgentTools, CallRunner
from prowess.agent.conversation import (
    CONVERSATION_FORMATS,
    Conversation,
    ConversationFormat,
    ConversationMessage,
    RememberedFact,
    export_conversation,
)
from prowess.agent.delegation import delegation_tools
from prowess.agent.loop import ModelRequests, TurnLoop
from prowess.agent.memory import FactMemory, choose_facts, recall
from prowess.agent.parts import AgentParts
from prowess.agent.records import EXPORT_MESSAGES, BegunTurn, ConversationRecords
from prowess.agent.updates import Update
from prowess.engine.engine import Engine
from prowess.errors import Invalid, NotFound, ProwessError, TooLarge
from prowess.llm.model import Model, is_small
from prowess.llm.models import ModelChoice
from prowess.policy.actor import conversation_agent
from prowess.threads import offload, offload_to_completion
from prowess.tools.toolbox import Toolbox
from prowess.view import error_json

MAX_MESSAGE_CHARS = 200_000
LIST_LIMIT = 200


class Agent:
    """Conversations of the engine's actor. Methods take the id of a conversation, or its name."""

    def __init__(self, engine: Engine, parts: AgentParts) -> None:
        self._engine = engine
        self._records = ConversationRecords(engine.context)
        self._facts = FactMemory(engine.context)
        self.parts = parts
        """What the application set; shared by the agents of all actors."""

    async def start(self, *, conversation: str = "", model: str = "", role: str = "", title: str = "") -> Conversation:
        """Return the conversation with this name, or a new one. Without a title, its first message becomes the title.

        `model` and `role` are those of a new conversation.
        """
        session = await self._engine.sessions.open(conversation, role=role, model=model)
        return await offload(self._records.open, session, title)

    def send(self, conversation: str, message: str, *, model: Model | str = "") -> AsyncGenerator[Update]:
        """Answer a message: yield each update of the turn as it happens, and `TurnEnded` last.

        Raise `NotFound` for an unknown conversation, `Invalid` for an empty message or a closed session, and `Conflict`
        while another turn of the conversation runs. Errors of the model end the turn as `failed`. A turn whose caller stops
        listening is stopped; its results up to then are stored. Calls that are waiting for an approval are discarded.
        """
        return self._turn(conversation, message, model, is_new=True)

    def resume(self, conversation: str, *, model: Model | str = "") -> AsyncGenerator[Update]:
        """Continue the last turn after an approval, an error, or the end of its process.

        The turn is still `waiting` if approvals are pending. A finished turn is returned unchanged.
        """
        return self._turn(conversation, "", model, is_new=False)

    async def list(self, *, limit: int = LIST_LIMIT) -> list[Conversation]:
        """Return conversations without their messages, the last active first."""
        return await offload(self._records.list, limit)

    async def get(self, conversation: str, *, after: int = 0) -> Conversation:
        """Return a conversation with its messages, or raise `NotFound`. With `after`, only those after that number."""
        return await offload(self._records.find, conversation, limit=EXPORT_MESSAGES, after=after)

    async def messages(
        self, conversation: str, *, limit: int, beyond: int | None = None, newest_first: bool = False
    ) -> tuple[list[ConversationMessage], int]:
        """Return the next messages after a number, and the total number. Reads only these messages. Raise `NotFound`."""
        return await offload(self._records.page, conversation, limit=limit, beyond=beyond, newest_first=newest_first)

    async def count_messages(self, conversation: str) -> int:
        """Return the number of the last message of a conversation; 0 if it has none, or does not exist yet."""
        try:
            last = (await offload(self._records.find, conversation, limit=1)).messages
        except NotFound:
            return 0
        return last[-1].number if last else 0

    async def export(self, conversation: str, *, format: ConversationFormat = "json") -> str:
        """Return a conversation as a document: `json` with everything, or `markdown` to read."""
        if format not in CONVERSATION_FORMATS:
            raise Invalid(f"Unknown format {format[:40]!r}.", hint=f"Use one of: {', '.join(CONVERSATION_FORMATS)}.")
        return export_conversation(await self.get(conversation), format)

    async def rename(self, conversation: str, title: str) -> Conversation:
        """Give a conversation another title. Later messages do not replace it. Raise `NotFound`, or `Invalid` for an empty one."""
        return await offload(self._records.rename, conversation, title)

    async def models(self) -> list[ModelChoice]:
        """Return the models that are configured or on this machine, the default first. Others can be chosen by name."""
        return await offload(lambda: self._engine.context.resources.model_client().choices())

    async def choose_model(self, conversation: str, model: str) -> Conversation:
        """Use this model in the conversation from the next turn on; '' for the default.

        Raise `NotFound`, `Invalid` for an unknown name, and `Unavailable` if the model cannot be used yet.
        """
        engine = self._engine
        found = await offload(self._records.find, conversation)
        client = await offload(engine.context.resources.model_client)
        await offload(client.check_choice, model, is_remote=engine.actor.is_remote)
        changed = replace(found, model=(await engine.sessions.change(found.id, model=model)).model)
        await offload(self._records.announce, changed, "model")
        return changed

    async def delete(self, conversation: str) -> Conversation:
        """Delete a conversation with its messages, and close its session. Raise `NotFound`, or `Conflict` while it answers."""
        deleted = await offload(self._records.delete, conversation)
        with suppress(NotFound):  # retention or another process was faster
            await self._engine.sessions.close(deleted.id)
        return deleted

    async def remember(self, text: str) -> RememberedFact:
        """Remember a fact for the actor's user. It is added to the prompt of later turns when it fits the message."""
        return await self._facts.remember(text)

    async def memories(self) -> list[RememberedFact]:
        """Return the remembered facts of the actor's user, the newest first."""
        return await self._facts.list()

    async def forget(self, fact: str) -> RememberedFact:
        """Forget a fact by its id, or the start of it."""
        return await self._facts.forget(fact)

    async def _turn(
        self, conversation: str, message: str, model: Model | str, *, is_new: bool, payer: str = ""
    ) -> AsyncGenerator[Update]:
        agent = self._engine.as_actor(conversation_agent(self._engine.actor))
        agent.actor.require("skills.read")
        text = _check_message(message) if is_new else ""
        facts = self.parts.memory is None
        locked: list[BegunTurn] = []

        def begin() -> None:
            locked.append(self._records.begin(conversation, agent.actor, text, facts=facts))

        try:
            await offload_to_completion(begin)
        except asyncio.CancelledError:
            for begun in locked:
                await _leave(begun, None)
            raise
        [begun] = locked
        keeper = asyncio.ensure_future(begun.journal.keep())
        failed: ProwessError | None = None
        try:
            loop = await self._prepare(agent, begun, model, payer)
            async with aclosing(loop.run()) as updates:
                async for update in updates:
                    yield update
        except Exception as error:
            # The text of an unexpected error is for the log: it may reveal more than the person should see.
            unknown = ProwessError("Internal error.", hint="See the server's log.")
            failed = error if isinstance(error, ProwessError) else unknown
            raise
        finally:
            keeper.cancel()
            await asyncio.wait([keeper])
            await _leave(begun, failed)

    async def _prepare(self, agent: Engine, begun: BegunTurn, model: Model | str, payer: str) -> TurnLoop:
        session, journal = begun.session, begun.journal
        # A turn continues with the model that it started with, also in another process.
        chosen = model or str(journal.question.detail.get("model") or "")
        requests = ModelRequests(agent.context, session, begun.policy, model=chosen, payer=payer)
        fallback: Model | None = None
        with suppress(ProwessError):  # the turn ends with this error when it asks the model
            fallback = await requests.model()
        question = journal.question.text
        memory = self.parts.memory
        toolbox = Toolbox(agent, conversation=session.id, fallback_model=fallback)
        conversation = await offload(self._records.find, session.id) if self.parts.tools else None
        added = [*self.parts.tools(self, conversation)] if self.parts.tools and conversation else []

        def work(helper: str, task: str) -> AsyncGenerator[Update]:
            # The limit of this conversation counts for what a helper spends.
            return self._turn(helper, task, chosen, is_new=bool(task), payer=session.id)

        def report(update: Update) -> None:
            tools.emit(update)

        added += delegation_tools(self, agent, begun, work, report)
        small = is_small(fallback) and not session.role
        tools = AgentTools(toolbox=toolbox, added={tool.name: tool for tool in added}, small=small)
        return TurnLoop(
            engine=agent,
            session=session,
            journal=journal,
            tools=tools,
            calls=CallRunner(engine=self._engine, tools=tools, journal=journal, redact=journal.redact),
            requests=requests,
            policies=self.parts.policies,
            memory=await recall(memory, question, session) if memory else choose_facts(question, begun.facts),
            graph_context=await recall(self.parts.graph_context, question, session),
            decider=self.parts.decider,
            model=chosen if isinstance(chosen, str) else "",
        )


async def _leave(begun: BegunTurn, error: ProwessError | None) -> None:
    """Let others work on the conversation if the turn did not come to its end: it was stopped, or the error ended it."""
    if begun.journal.is_held:
        with suppress(ProwessError):  # the lease is lost, or expires by itself
            if error is None:
                await begun.journal.end("stopped")
            else:
                await begun.journal.end("failed", error=error_json(error))


def _check_message(message: str) -> str:
    if not message.strip():
        raise Invalid("The message is empty.", hint="Write a question or a task.")
    if len(message) > MAX_MESSAGE_CHARS:
        raise TooLarge(
            f"The message has {len(message):,} characters; at most {MAX_MESSAGE_CHARS:,} are allowed.",
            hint="Send a shorter message, or put the text into a file that a tool can read.",
        )
    return message
