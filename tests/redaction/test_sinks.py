"""A secret of the environment that gets into a run gets out of it nowhere that lasts."""

from __future__ import annotations

import asyncio
import base64
import json
import logging

import pytest

from prowess.errors import ProwessError
from prowess.llm.scripted import ScriptedModel
from prowess.open import Prowess
from prowess.settings import read_settings
from prowess.storage.database import open_database
from prowess.storage.sql.traces import traces

CANARY = "canary-7Qx2-0815-value"
MANIFEST = "title: Teller\nversion: 1.0.0\n"


@pytest.fixture
def teller(each_place):
    """A workspace with a skill that puts its input into a prompt, where the canary is a key, a setting and a password."""
    each_place.write(
        "teller",
        {
            "SKILL.md": "---\nname: teller\ndescription: Tells.\n---\n\nTell.\n",
            "agents/prowess.yaml": MANIFEST,
            "prompts/tell.j2": "Tell of {{ what }}.",
        },
    )
    each_place.environment.update(SERVICE_TOKEN=CANARY, PROWESS_MODEL_KEY=CANARY)
    return each_place


def run(place, what, steps):
    async def main():
        async with Prowess.open(settings=read_settings(place.environment)) as prowess:
            try:
                await prowess.run("teller", {"what": what}, artifacts="tell", model=ScriptedModel(steps))
            except ProwessError as error:
                return f"{error.message} {error.hint}"
        return ""

    return asyncio.run(main())


def rows(place):
    database = open_database(
        place.environment["PROWESS_DATABASE_URL"] or f"sqlite:///{place.environment['PROWESS_HOME']}/agents.db"
    )
    with database.read() as connection:
        found = [dict(row) for row in connection.execute(traces.select()).mappings()]
        events = [list(row) for row in connection.exec_driver_sql("SELECT * FROM events")]
        audit = [list(row) for row in connection.exec_driver_sql("SELECT * FROM audit")]
    database.close()
    return found, json.dumps([found, events, audit], default=str)


WRITTEN = {
    "as it is": CANARY,
    "base64": base64.b64encode(f"ada:{CANARY}".encode()).decode(),
    "split": CANARY[:9] + "\n" + CANARY[9:],
}


def said(text):
    return "".join(text.split()).replace("\\n", "")


@pytest.mark.parametrize("how", WRITTEN)
def test_neither_the_inputs_nor_the_prompt_nor_the_answer_of_a_run_keep_it(teller, how):
    run(teller, f"the key {WRITTEN[how]} of ours", [f"I know {WRITTEN[how]} now."])
    [row], everything = rows(teller)
    assert row["status"] == "ok"
    assert "[redacted]" in row["raw_output"]
    assert "[redacted]" in row["rendered_input"]
    assert said(WRITTEN[how])[4:20] not in said(everything)


def test_neither_the_error_nor_the_log_of_a_run_that_fails_keeps_it(teller, caplog):
    from prowess.errors import RunFailed

    with caplog.at_level(logging.DEBUG):
        told = run(teller, "nothing", [RunFailed(f"401 for {CANARY}", hint=f"Is {CANARY} right?")])
    [row], everything = rows(teller)
    assert row["status"] == "failed"
    assert CANARY not in everything
    assert CANARY not in told
    assert CANARY not in caplog.text
