"""Parts that load well and fail when they are used: an assertion type that raises, and a handler without a result, with an odd one, or that exits."""

from pathlib import Path

from prowess.plugins import Plugin
from prowess.run.assertions.assertion import AssertionType
from prowess.run.call import Output
from prowess.skill.kinds import Artifact, KindInfo


class Note(Artifact):
    kind: str = "flawed.note"


NOTE = KindInfo(
    name="flawed.note",
    model=Note,
    folder="notes",
    reads=(".note",),
    writes=".note",
    root_files=(),
    is_file=False,
    in_prompt=False,
    in_run="work",
    is_tool=True,
    reaches="nothing",
    runs_code=False,
    gives="text",
    describes_dry_run=False,
)


class NoteHandler:
    kind = "flawed.note"

    async def run(self, call):
        if call.inputs.get("exit"):
            raise SystemExit(3)
        if call.inputs.get("odd"):
            return Output(kind=self.kind, data={"when": object()})
        return None if call.inputs.get("silent") else Output(kind=self.kind, text=call.artifact.content)


class BrokenAssertion:
    def __init__(self, _spec):
        raise RuntimeError("never checked anything")


plugin = Plugin(
    name="flawed",
    packs=(Path(__file__).parent / "skills",),
    kinds=(NOTE,),
    handlers=(NoteHandler(),),
    assertions=(AssertionType(name="flawed.check", checks={"any": lambda _: iter(())}, make=BrokenAssertion),),
)
