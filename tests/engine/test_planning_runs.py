"""A dry run of code: what would be called, sent or run, with the inputs in place, and nothing done."""

from __future__ import annotations

import pytest

from prowess.errors import Invalid

pytestmark = pytest.mark.anyio

SIDECAR = """
parameters:
  type: object
  properties: {word: {type: string}, times: {type: integer, default: 2}}
  required: [word]
hosts: [api.example.org]
env: [API_KEY]
binaries: [grep]
artifacts:
  - {kind: http_call, name: ask, handler: "POST https://api.example.org/{{ word }}", metadata: {headers: {Authorization: "Bearer {{ env.API_KEY }}"}, body: {n: "{{ times }}"}}}
  - {kind: cli_command, name: look, handler: grep, metadata: {args: [-c, "{{ word }}"], stdin: "{{ word }}"}}
"""


@pytest.fixture
def skill(place):
    files = {
        "agents/prowess.yaml": SIDECAR,
        "execute.py": "def execute(args, ctx):\n    raise RuntimeError('it ran')\n",
        "code/script.py": "raise RuntimeError('it ran')\n",
        "scripts/run.sh": "exit 1\n",
    }
    place.skill("doer", files=files)
    return place


@pytest.mark.parametrize(
    ("artifact", "inputs", "shown"),
    [
        ("execute", {"word": "a b"}, ['execute({"word": "a b", "times": 2})']),
        ("script", {"word": "a"}, ["raise RuntimeError", '"times": 2']),
        ("ask", {"word": "a/b"}, ["POST https://api.example.org/a%2Fb", "[env.API_KEY]", '"n": 2']),
        ("look", {"word": "it's"}, ["grep -c", "it"]),
        ("run.sh", {"args": ["-n", "a b"]}, ["scripts/run.sh -n 'a b'"]),
    ],
)
async def test_it_tells_what_would_be_done_and_does_nothing(skill, artifact, inputs, shown):
    async with skill.open() as prowess:
        result = await prowess.run("doer", inputs, artifacts=artifact, dry_run=True)
        assert await prowess.traces.list() == []
    [part] = result.parts
    assert part.error is None
    assert all(words in part.plan for words in shown)
    assert part.as_json()["would_do"] == part.plan
    assert part.receipt["declared"]["hosts"] == ["api.example.org"]
    assert part.receipt["touched"] == {}


@pytest.mark.parametrize("artifact", ["execute", "script", "ask", "look"])
async def test_inputs_are_checked_in_a_dry_run_too(skill, artifact):
    async with skill.open() as prowess:
        with pytest.raises(Invalid, match="word"):
            await prowess.run("doer", artifacts=artifact, dry_run=True)
