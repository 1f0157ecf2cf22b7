"""What a turn of the agent costs beyond the model, what an idle conversation takes, and whether a small model finds its skill.

    python benchmarks/agent.py [--turns 100] [--conversations 200] [--local MODEL] [--out benchmarks/results/agent.json]

A turn is a message with one answer of a scripted model: match, decision, prompt, tools, journal, events and traces, in a
conversation of up to ten turns. "once" repeats turns at once; "paused" waits between them, so that each looks at the skills
anew. pydantic-ai runs an agent with one tool and the same number of earlier messages in memory: it has no skills, stores
nothing and records nothing, so it is the floor, not a rival. The CPU is that of the process with all its threads, the
median of batches of ten turns. A loop of plain Python is timed between the batches: on a machine that others use, compare
turns with it.

`--local` asks a model on this machine, by its path (local:/path/to/model.gguf, see `prowess model fetch`), the 60 messages of
`material/agent_tasks.json`, with skills and without, and counts how often the right skill was found, enabled and used. It
takes long, and is left out without the option.
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

from prowess.agent.updates import Decided, TurnEnded
from prowess.llm.model import Model
from prowess.llm.scripted import ScriptedModel
from prowess.open import Prowess
from prowess.settings import read_settings

HERE = Path(__file__).resolve().parent
GOAL_MS, GOAL_KB = 5.0, 200.0
ANSWER = "The harbour has two towers, and the older one is open to visitors until six in the evening."
BATCH, WARM_UP, PAUSED_TURNS, PAUSE_SECONDS = 10, 20, 10, 1.2
LOOP = 20_000
PLACES = (("folders", 10), ("folders", 10_000), ("database", 10), ("database", 10_000))


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


async def measure(turns: int, work: Callable[[int], Awaitable[object]], *, batch: int = BATCH) -> dict[str, float]:
    """The CPU of one turn in milliseconds: the median of batches, the least of them, and the loop between them."""
    for number in range(WARM_UP):
        await work(number)
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

        at_once = await measure(turns, play)
        paused = await measure(PAUSED_TURNS, play_later)
    row = {"client": "prowess", "kept_in": kept_in, "skills": skills}
    return [{**row, "pace": "once", **at_once}, {**row, "pace": "paused", **paused}]


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


async def ask_local(model: str, most: int) -> list[dict[str, Any]]:
    """How often a model on this machine finds, enables and uses the right skill, with skills and without."""
    tasks = json.loads((HERE / "material/agent_tasks.json").read_text("utf-8"))["skills"]
    asked = [(task, message) for place in range(5) for task in tasks for message in [task["messages"][place]]][:most]
    rows: list[dict[str, Any]] = []
    for with_skills in (True, False):
        counts = {"found": 0, "enabled": 0, "used": 0, "failed": 0}
        async with open_engine("folders", 0) as prowess:
            for task in tasks if with_skills else ():
                folder = prowess.context.resources.workspace / ".agents/skills" / task["name"]
                folder.mkdir(parents=True)
                text = f"---\nname: {task['name']}\ndescription: {task['description']}\n---\n\n{task['fact']}\n"
                (folder / "SKILL.md").write_text(text, encoding="utf-8")
            for task, message in asked:
                conversation = (await prowess.agent.start()).id
                updates = [update async for update in prowess.agent.send(conversation, message, model=model)]
                ended = updates[-1]
                if not isinstance(ended, TurnEnded) or ended.state != "done":
                    counts["failed"] += 1
                    continue
                offered = [
                    one["skill"] for update in updates if isinstance(update, Decided) for one in update.recommendations
                ]
                counts["found"] += task["name"] in offered
                counts["enabled"] += task["name"] in ended.skills
                counts["used"] += task["mark"].casefold() in ended.text.casefold()
        rows.append({"model": model, "skills": "on" if with_skills else "off", "messages": len(asked), **counts})
    return rows


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
    if given.part == "idle":
        return asyncio.run(keep_idle(given.conversations))
    return asyncio.run(ask_local(given.local, given.messages))


def print_turns(rows: list[dict[str, Any]]) -> None:
    print(
        f"{'client':<14}{'kept in':<10}{'skills':>8}  {'pace':<8}{'CPU ms':>8}{'least':>8}{'loop ms':>9}{'x peer':>8}"
    )
    peer = rows[-1]["cpu_ms"]
    for row in rows:
        print(
            f"{row['client']:<14}{row['kept_in']:<10}{row['skills']:>8,}  {row['pace']:<8}{row['cpu_ms']:>8.2f}"
            f"{row['least_ms']:>8.2f}{row['loop_ms']:>9.2f}{row['cpu_ms'] / peer:>8.1f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--turns", type=int, default=100)
    parser.add_argument("--conversations", type=int, default=200)
    parser.add_argument("--local", metavar="MODEL", default="")
    parser.add_argument("--messages", type=int, default=60, help="how many messages `--local` asks")
    parser.add_argument("--out", type=Path, default=HERE / "results/agent.json")
    parser.add_argument("--part", choices=("prowess", "pydantic-ai", "idle", "local"), help=argparse.SUPPRESS)
    parser.add_argument("--kept-in", default="folders", help=argparse.SUPPRESS)
    parser.add_argument("--skills", type=int, default=10, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.part:
        print(json.dumps(run_part(given)))
        return
    turns = ("--turns", str(given.turns))
    rows: list[dict[str, Any]] = []
    for kept_in, skills in PLACES:
        rows += in_own_process("--part", "prowess", *turns, "--kept-in", kept_in, "--skills", str(skills))
    rows += in_own_process("--part", "pydantic-ai", *turns)
    print_turns(rows)
    worst = max(row["least_ms"] for row in rows if row["kept_in"] == "database" and row["pace"] == "once")
    print(f"{'met' if worst <= GOAL_MS else 'NOT MET'}: {worst:.1f} ms of CPU per turn; the goal is {GOAL_MS:g} ms.")
    idle = in_own_process("--part", "idle", "--conversations", str(given.conversations))
    state = "met" if idle["kb_each"] <= GOAL_KB and not idle["incomplete"] else "NOT MET"
    print(
        f"\n{state}: {idle['kb_each']:.0f} KB for each of {idle['conversations']} idle conversations (goal {GOAL_KB:g} KB), "
        f"{idle['incomplete']} incomplete, {idle['events']} of {idle['expected_events']} events."
    )
    results: dict[str, Any] = {"turns": rows, "idle": idle}
    if given.local:
        asked = in_own_process("--part", "local", "--local", given.local, "--messages", str(given.messages))
        results["local"] = asked
        for row in asked:
            print(
                f"{row['model']}, skills {row['skills']}: of {row['messages']} messages, found {row['found']}, "
                f"enabled {row['enabled']}, used {row['used']}, failed {row['failed']}."
            )
    given.out.parent.mkdir(exist_ok=True)
    given.out.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
