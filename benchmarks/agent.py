"""What a turn of the agent costs beyond the model, what an idle conversation takes, and whether a small model finds its skill.

    python benchmarks/agent.py [--turns 60] [--conversations 200] [--out benchmarks/results/agent.json]
    python benchmarks/agent.py --local MODEL [--messages 60] [--minutes 30]

A turn is a message with one answer of a scripted model: match, decision, prompt, tools, journal, events and traces, in a
conversation of up to ten turns. "once" repeats turns at once; "paused" waits between them, so that each looks at the skills
anew. pydantic-ai runs an agent with one tool and the same number of earlier messages in memory: it has no skills, stores
nothing and records nothing, so it is the floor, not a rival. The CPU is that of the process with all its threads, the
median of batches of ten turns. A loop of plain Python is timed between the batches: on a machine that others use, compare
turns with it. "parts" is the CPU of what the goal is about, by thread: match, decision without a model, prompt and tools.

`--local` does nothing of that. It asks a model on this machine, by its path (local:/path/to/model.gguf, see `prowess model
fetch`), the 60 messages of `material/agent_tasks.json`, with skills and without, and counts how often the right skill was
found, enabled and used. It stops after `--minutes`, and goes on the next time with the messages that are left: every
outcome is kept in a file beside `--out`.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from prowess.agent import decision, loop
from prowess.agent.updates import Decided, TurnEnded
from prowess.llm.model import Model
from prowess.llm.scripted import ScriptedModel
from prowess.open import Prowess
from prowess.settings import read_settings

HERE = Path(__file__).resolve().parent
GOAL_MS, GOAL_KB = 5.0, 200.0
ANSWER = "The harbour has two towers, and the older one is open to visitors until six in the evening."
BATCH, WARM_UP, PAUSED_TURNS, PAUSE_SECONDS = 10, 20, 10, 1.2
PARTS = (
    ("match", decision, "read_context"),
    ("decision", decision, "_carry_out"),
    ("prompt and tools", loop.TurnLoop, "_read_prompt"),
)
LOOP = 20_000
SKILLS = 10_000
PLACES = (("folders", 10), ("folders", SKILLS), ("database", 10), ("database", SKILLS))


def read_messages() -> list[str]:
    """Messages as people write them to an agent, in an order that never changes."""
    names = ("coding", "office", "research")
    lists = [(HERE / "material/requests" / f"{name}.jsonl").read_text("utf-8").splitlines() for name in names]
    return [json.loads(line)["text"] for line in lists[0] + lists[1] + lists[2]][::7]


def write_skills(workspace: Path, folder: Path, count: int) -> None:
    workspace.mkdir()
    for number in range(count):
        place = folder / f"skill-{number:05}"
        place.mkdir(parents=True)
        about = f"Reads invoices of customer {number} and adds up the totals of quarter {number % 4 + 1}."
        (place / "SKILL.md").write_text(
            f"---\nname: skill-{number:05}\ndescription: {about}\n---\n\nAdd up the totals.\n"
        )


@asynccontextmanager
async def open_engine(kept_in: str, skills: int) -> AsyncGenerator[Prowess]:
    """An engine of its own, whose skills lie in the folders of a workspace or in the database."""
    with tempfile.TemporaryDirectory(prefix="prowess-bench-") as name:
        workspace, written = Path(name, "work"), Path(name, "skills")
        write_skills(workspace, workspace / ".agents/skills" if kept_in == "folders" else written, skills)
        environment = {
            "HOME": name,
            "PATH": os.environ["PATH"],
            "PROWESS_SYSTEM_SKILLS": "off",
            "PROWESS_SKILL_FOLDERS": "on" if kept_in == "folders" else "off",
            "PROWESS_TRUSTED_FOLDERS": name,
            "PROWESS_EMBEDDER": "none",  # the speed of encoders is that of `match_speed.py`
        }
        async with Prowess.open(settings=read_settings(environment, workspace=workspace)) as prowess:
            if kept_in == "database" and skills:
                await prowess.skills.import_path(written, scope="account")
            yield prowess


def time_loop() -> float:
    began, total = time.process_time(), 0
    for number in range(LOOP):
        total += number * number % 7
    return (time.process_time() - began) * 1000


def time_parts() -> dict[str, float]:
    """Count the CPU seconds of each part of all turns from now on. A part works in one thread from its start to its end."""
    spent: dict[str, float] = {}
    for name, owner, attribute in PARTS:
        work = getattr(owner, attribute)

        def timed(*given: Any, name: str = name, work: Callable[..., Any] = work, **named: Any) -> Any:
            began = time.thread_time()
            try:
                return work(*given, **named)
            finally:
                spent[name] = spent.get(name, 0.0) + time.thread_time() - began

        setattr(owner, attribute, timed)
    return spent


async def measure(
    turns: int, work: Callable[[int], Awaitable[object]], *, batch: int = BATCH, spent: dict[str, float] | None = None
) -> dict[str, float]:
    """The CPU of one turn in milliseconds: the median of batches, the least of them, and the loop between them."""
    for number in range(WARM_UP):
        await work(number)
    if spent is not None:
        spent.clear()
    found: list[float] = []
    loops: list[float] = []
    for start in range(WARM_UP, WARM_UP + turns, batch):
        began = time.process_time()
        for number in range(start, start + batch):
            await work(number)
        found.append((time.process_time() - began) * 1000 / batch)
        loops.append(time_loop())
    return {"cpu_ms": statistics.median(found), "least_ms": min(found), "loop_ms": statistics.median(loops)}


async def send(prowess: Prowess, conversation: str, message: str, model: Model | str) -> TurnEnded:
    """Play a turn and return its end."""
    updates = [update async for update in prowess.agent.send(conversation, message, model=model)]
    ended = updates[-1]
    if not isinstance(ended, TurnEnded) or ended.state != "done":
        sys.exit(f"A turn did not end well: {ended}")
    return ended


async def by_prowess(turns: int, kept_in: str, skills: int) -> list[dict[str, Any]]:
    messages = read_messages()
    spent = time_parts()
    async with open_engine(kept_in, skills) as prowess:
        model = ScriptedModel([ANSWER] * (turns + PAUSED_TURNS + 2 * WARM_UP))
        conversation = ""

        async def play(number: int) -> None:
            nonlocal conversation
            if number % BATCH == 0:
                conversation = (await prowess.agent.start()).id
            await send(prowess, conversation, messages[number % len(messages)], model)

        async def play_later(number: int) -> None:
            await asyncio.sleep(PAUSE_SECONDS if number >= WARM_UP else 0)
            await play(number)

        rows: list[dict[str, Any]] = []
        for pace, count, work in (("once", turns, play), ("paused", PAUSED_TURNS, play_later)):
            found = await measure(count, work, spent=spent)
            parts = {name: seconds * 1000 / count for name, seconds in spent.items()}
            row = {"client": "prowess", "kept_in": kept_in, "skills": skills, "pace": pace, **found}
            rows.append({**row, "parts": parts, "parts_ms": sum(parts.values())})
    return rows


async def by_pydantic_ai(turns: int) -> list[dict[str, Any]]:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    def answer(_messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[TextPart(ANSWER)])

    agent = Agent(FunctionModel(answer), instructions="You are an agent that works for a person.")

    @agent.tool_plain
    def look_up(word: str) -> str:
        """Look up a word."""
        return word

    messages = read_messages()
    history: list[ModelMessage] = []

    async def play(number: int) -> None:
        nonlocal history
        if number % BATCH == 0:
            history = []
        ran = await agent.run(messages[number % len(messages)], message_history=history)
        history = ran.all_messages()

    found = await measure(turns, play)
    return [{"client": "pydantic-ai", "kept_in": "-", "skills": 0, "pace": "once", **found}]


def resident_kb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024


async def keep_idle(conversations: int) -> dict[str, Any]:
    """What conversations take in memory that all answered at the same time and now wait, and whether anything was lost."""
    messages = read_messages()
    async with open_engine("folders", 10) as prowess:
        model = ScriptedModel([ANSWER] * (2 * conversations + 2 * WARM_UP), unordered=True)

        async def play(number: int, turns: int) -> str:
            opened = (await prowess.agent.start()).id
            for turn in range(turns):
                await send(prowess, opened, messages[(number + turn) % len(messages)], model)
            return opened

        for number in range(WARM_UP):
            await play(number, 1)
        gc.collect()
        before, first = resident_kb(), await prowess.events.last()
        ids = await asyncio.gather(*(play(number, 2) for number in range(conversations)))
        # The requests that a scripted model remembers are those of this program, not of the engine.
        model.requests.clear()
        gc.collect()
        kilobytes = (resident_kb() - before) / conversations
        kept = [await prowess.agent.get(one) for one in ids]
        prowess.context.resources.recorder().flush()
        recorded = await prowess.events.last() - first
    lost = sum(len(one.messages) != 4 for one in kept)
    return {
        "conversations": conversations,
        "kb_each": round(kilobytes, 1),
        "incomplete": lost,
        "events": recorded,
        "expected_events": 2 * conversations,
    }


async def ask_local(model: str, most: int, minutes: float, kept: Path) -> None:
    """Ask a model on this machine, with skills and without in turn, until all was asked or the time is over."""
    tasks = json.loads((HERE / "material/agent_tasks.json").read_text("utf-8"))["skills"]
    asked = [(task, message) for place in range(5) for task in tasks for message in [task["messages"][place]]][:most]
    done = {(row["skills"], row["message"]) for row in read_outcomes(kept, model)}
    left = [(skills, *one) for one in asked for skills in ("on", "off") if (skills, one[1]) not in done]
    until = time.monotonic() + minutes * 60
    async with open_engine("folders", 0) as with_skills, open_engine("folders", 0) as without:
        for task in tasks:
            folder = with_skills.context.resources.workspace / ".agents/skills" / task["name"]
            folder.mkdir(parents=True)
            text = f"---\nname: {task['name']}\ndescription: {task['description']}\n---\n\n{task['fact']}\n"
            (folder / "SKILL.md").write_text(text, encoding="utf-8")
        for place, (skills, task, message) in enumerate(left, 1):
            if time.monotonic() >= until:
                break
            began = time.monotonic()
            outcome = await ask_one(with_skills if skills == "on" else without, model, task, message)
            seconds = round(time.monotonic() - began, 1)
            row = {"model": model, "skills": skills, "message": message, **outcome, "seconds": seconds}
            with kept.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            words = ", ".join(name for name, held in outcome.items() if held) or "nothing"
            print(f"{place} of {len(left)}, skills {skills}, {seconds:.0f} s: {words}", flush=True)


async def ask_one(prowess: Prowess, model: str, task: dict[str, Any], message: str) -> dict[str, Any]:
    conversation = (await prowess.agent.start()).id
    updates = [update async for update in prowess.agent.send(conversation, message, model=model)]
    ended = updates[-1]
    if not isinstance(ended, TurnEnded) or ended.state != "done":
        error = (isinstance(ended, TurnEnded) and ended.error) or {}
        return {"failed": True, "code": error.get("code", ""), "error": error.get("message", "")}
    offered = [one["skill"] for update in updates if isinstance(update, Decided) for one in update.recommendations]
    return {
        "found": task["name"] in offered,
        "enabled": task["name"] in ended.skills,
        "used": task["mark"].casefold() in ended.text.casefold(),
    }


def read_outcomes(kept: Path, model: str) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in kept.read_text("utf-8").splitlines()] if kept.exists() else []
    return [row for row in rows if row["model"] == model]


def print_local(rows: list[dict[str, Any]], messages: int) -> None:
    for skills in ("on", "off"):
        own = [row for row in rows if row["skills"] == skills]
        counts = {name: sum(bool(row.get(name)) for row in own) for name in ("found", "enabled", "used", "failed")}
        words = ", ".join(f"{name} {count} ({count / len(own):.0%})" for name, count in counts.items() if own)
        seconds = [row["seconds"] for row in own if "seconds" in row]
        took = f"; {statistics.median(seconds):.0f} s in the median" if seconds else ""
        print(f"skills {skills}: {len(own)} of {messages} messages asked, {words}{took}.")


def in_own_process(*arguments: str) -> Any:
    """One part in a process of its own, so that none pays for another's imports and memory."""
    ran = subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True, check=False)
    if ran.returncode:
        sys.exit(f"{' '.join(arguments)} failed:\n{ran.stderr[-3000:]}")
    return json.loads(ran.stdout.splitlines()[-1])


def run_part(given: argparse.Namespace) -> Any:
    if given.part == "prowess":
        return asyncio.run(by_prowess(given.turns, given.kept_in, given.skills))
    if given.part == "pydantic-ai":
        return asyncio.run(by_pydantic_ai(given.turns))
    return asyncio.run(keep_idle(given.conversations))


def print_turns(rows: list[dict[str, Any]]) -> None:
    print(
        f"{'client':<14}{'kept in':<10}{'skills':>8}  {'pace':<8}{'CPU ms':>8}{'least':>8}{'loop ms':>9}{'x peer':>8}{'parts':>8}"
    )
    peer = rows[-1]["cpu_ms"]
    for row in rows:
        print(
            f"{row['client']:<14}{row['kept_in']:<10}{row['skills']:>8,}  {row['pace']:<8}{row['cpu_ms']:>8.2f}"
            f"{row['least_ms']:>8.2f}{row['loop_ms']:>9.2f}{row['cpu_ms'] / peer:>8.1f}{row.get('parts_ms', 0.0):>8.2f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--turns", type=int, default=60)
    parser.add_argument("--conversations", type=int, default=200)
    parser.add_argument("--local", metavar="MODEL", default="")
    parser.add_argument("--messages", type=int, default=60, help="how many messages `--local` asks")
    parser.add_argument("--minutes", type=float, default=30.0, help="how long `--local` asks")
    parser.add_argument("--out", type=Path, default=HERE / "results/agent.json")
    parser.add_argument("--part", choices=("prowess", "pydantic-ai", "idle"), help=argparse.SUPPRESS)
    parser.add_argument("--kept-in", default="folders", help=argparse.SUPPRESS)
    parser.add_argument("--skills", type=int, default=10, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.part:
        print(json.dumps(run_part(given)))
        return
    given.out.parent.mkdir(exist_ok=True)
    if given.local:
        kept = given.out.with_name("agent_local.jsonl")
        asyncio.run(ask_local(given.local, given.messages, given.minutes, kept))
        print_local(read_outcomes(kept, given.local), given.messages)
        return
    turns = ("--turns", str(given.turns))
    rows: list[dict[str, Any]] = []
    for kept_in, skills in PLACES:
        rows += in_own_process("--part", "prowess", *turns, "--kept-in", kept_in, "--skills", str(skills))
    rows += in_own_process("--part", "pydantic-ai", *turns)
    print_turns(rows)
    worst = max(row["parts_ms"] for row in rows if row.get("pace") == "once" and row["skills"] == SKILLS)
    state = "met" if worst <= GOAL_MS else "NOT MET"
    print(
        f"{state}: {worst:.1f} ms of CPU for match, decision, prompt and tools at {SKILLS:,} skills; the goal is {GOAL_MS:g} ms."
    )
    idle = in_own_process("--part", "idle", "--conversations", str(given.conversations))
    state = "met" if idle["kb_each"] <= GOAL_KB and not idle["incomplete"] else "NOT MET"
    print(
        f"\n{state}: {idle['kb_each']:.0f} KB for each of {idle['conversations']} idle conversations (goal {GOAL_KB:g} KB), "
        f"{idle['incomplete']} incomplete, {idle['events']} of {idle['expected_events']} events."
    )
    given.out.write_text(json.dumps({"turns": rows, "idle": idle}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
