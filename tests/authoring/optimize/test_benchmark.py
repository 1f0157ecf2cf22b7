"""The benchmark of the optimizer works with any model; its material is as large as it says."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from prowess.authoring.evals.case import EvalCase
from prowess.authoring.evals.splits import held_out_cases
from prowess.authoring.optimize.search import SHARES

from .conftest import SortingModel

pytestmark = [pytest.mark.anyio, pytest.mark.long]

ROOT = Path(__file__).resolve().parents[3]
CASES = json.loads((ROOT / "benchmarks" / "material" / "tickets" / "evals" / "cases.json").read_text())
BETTER = "Choose billing, shipping, account or technical.\n\nTicket: {{ ticket }}"


class Knower(SortingModel):
    """Knows the label of every ticket, and says it if its prompt lists the labels."""

    labels = {case["inputs"]["ticket"]: case["expected"]["category"] for case in CASES}

    def answer(self, text: str) -> str:
        if text.startswith("You improve"):
            return json.dumps({"rewrites": [BETTER]})
        ticket = text.partition("Ticket: ")[2].strip()
        return json.dumps({"category": self.labels[ticket] if text.startswith("Choose") else "billing"})


@pytest.fixture(autouse=True)
def few() -> None:
    """Decide as in earnest."""


async def test_the_benchmark_reports_the_gain_with_its_interval():
    spec = importlib.util.spec_from_file_location("optimize_benchmark", ROOT / "benchmarks" / "optimize.py")
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    [row] = await benchmark.measure(Knower(), ["rewrite"], calls=700, minutes=5)
    assert (row["state"], row["test"]["candidate"]) == ("proposed", 1.0)
    assert row["test"]["cases"] >= 40
    assert "95%" not in benchmark.format_row(row)
    assert "n = " in benchmark.format_row(row)


def test_the_material_holds_out_enough_and_repeats_nothing():
    cases = [EvalCase(id=one["id"], inputs=one["inputs"], artifact="classify") for one in CASES]
    assert len({case.inputs_digest for case in cases}) == len(cases) == 120
    assert len(held_out_cases(cases, SHARES).cases) >= 40
