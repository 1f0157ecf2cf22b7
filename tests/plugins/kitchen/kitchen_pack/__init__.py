"""Runs artifacts of the kind `dspy_module`: those that it knows."""

from pathlib import Path

from prowess.errors import NotFound
from prowess.plugins import Plugin
from prowess.run.call import Call, Output


def scaled(grams: float, portions: float) -> float:
    return grams * portions


FUNCTIONS = {"kitchen.scaled": scaled}


class ModuleHandler:
    kind = "dspy_module"

    async def run(self, call: Call) -> Output:
        name = call.artifact.settings["template_id"]
        if name not in FUNCTIONS:
            raise NotFound(f"There is no function {name!r}.", hint=f"There is: {', '.join(FUNCTIONS)}.")
        value = FUNCTIONS[name](**call.inputs)
        return Output(kind="dspy_module", text=str(value), data=value)


plugin = Plugin(name="kitchen", packs=(Path(__file__).parent / "skills",), handlers=(ModuleHandler(),))
