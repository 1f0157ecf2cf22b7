"""Runs artifacts of the kind `function`: those that it knows."""

from pathlib import Path

from prowess.errors import NotFound
from prowess.plugins import Plugin
from prowess.run.call import Call, Output


def scaled(grams: float, portions: float) -> float:
    return grams * portions


FUNCTIONS = {"kitchen.scaled": scaled}


class FunctionHandler:
    kind = "function"

    async def run(self, call: Call) -> Output:
        name = call.artifact.content.strip().strip('"')
        if name not in FUNCTIONS:
            raise NotFound(f"There is no function {name!r}.", hint=f"There is: {', '.join(FUNCTIONS)}.")
        value = FUNCTIONS[name](**call.inputs)
        return Output(kind="function", text=str(value), data=value)


plugin = Plugin(name="kitchen", packs=(Path(__file__).parent / "skills",), handlers=(FunctionHandler(),))
