"""How fast values are held to a JSON Schema, side by side with `jsonschema`.

    python benchmarks/schemas.py [--rounds N] [--out FILE]

One schema of a review with definitions, references, tuples and closed objects, and a value with 30 criteria: as it should
be, and with five faults. The two must agree on the verdict and on the places of the faults. `jsonschema_rs alone` is the
library underneath, without the checks of size, depth and work that Prowess does first. Compiling is a first use of a schema;
after that Prowess finds the compiled one by its content, which is part of every other row.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import jsonschema_rs

from prowess.skill.schema import compile_schema

HERE = Path(__file__).resolve().parent

SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["pass", "criteria", "span"],
    "properties": {
        "pass": {"type": "boolean"},
        "criteria": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/criterion"}},
        "span": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "integer"}], "items": False},
    },
    "unevaluatedProperties": False,
    "$defs": {
        "criterion": {
            "type": "object",
            "required": ["criterion_id", "verdict", "reasoning", "confidence"],
            "properties": {
                "criterion_id": {"type": "string", "pattern": "^[a-z][a-z0-9-]*$"},
                "verdict": {"enum": ["pass", "fail", "indeterminate"]},
                "reasoning": {"type": "string", "minLength": 1, "maxLength": 2000},
                "confidence": {"type": "number", "minimum": 0, "maximum": 1},
                "evidence": {"type": "array", "items": {"type": "string"}},
            },
            "additionalProperties": False,
        }
    },
}
GOOD: dict[str, Any] = {
    "pass": True,
    "span": [1, 30],
    "criteria": [
        {
            "criterion_id": f"criterion-{n}",
            "verdict": "pass" if n % 3 else "fail",
            "reasoning": "The second paragraph says so in as many words, and nothing later takes it back.",
            "confidence": 0.9,
            "evidence": ["says so in as many words", "nothing later takes it back"],
        }
        for n in range(30)
    ],
}


def main() -> int:
    args = arguments()
    bad = with_faults()
    check_agreement(bad)
    rows = [
        timed("value that fits", engine, use, args.rounds) for engine, use in engines("valid", GOOD).items()
    ] + [
        timed("all faults of one that does not", engine, use, args.rounds)
        for engine, use in engines("errors", bad).items()
    ] + [timed("compile", engine, use, args.rounds // 4) for engine, use in compilers().items()]  # fmt: skip
    print_table(rows)
    report = {
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "bytes": len(json.dumps(GOOD)),
        "rows": rows,
    }
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=2_000)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "schemas.json")
    return parser.parse_args()


def with_faults() -> dict[str, Any]:
    """The value with five faults."""
    bad = copy.deepcopy(GOOD)
    bad["criteria"][3]["verdict"] = "perhaps"
    bad["criteria"][7]["confidence"] = 1.5
    del bad["criteria"][11]["reasoning"]
    bad["criteria"][19]["criterion_id"] = "Not An Id"
    bad["pass"] = "yes"
    return bad


def check_agreement(bad: dict[str, Any]) -> None:
    reference: Any = jsonschema.Draft202012Validator(SCHEMA)
    ours = {error.path for error in compile_schema(SCHEMA).errors(bad)}
    theirs = {"".join(f"/{part}" for part in error.absolute_path) for error in reference.iter_errors(bad)}
    if ours != theirs or compile_schema(SCHEMA).errors(GOOD):
        raise SystemExit(f"The libraries differ: {ours} and {theirs}")


def engines(what: str, value: dict[str, Any]) -> dict[str, Callable[[], object]]:
    """Each way to check a value: for its verdict, or for all its faults."""
    reference: Any = jsonschema.Draft202012Validator(SCHEMA)
    bare: Any = jsonschema_rs.validator_for(SCHEMA, offline=True)
    faults = what == "errors"
    return {
        "prowess": lambda: compile_schema(SCHEMA).errors(value),
        "jsonschema_rs alone": lambda: list(bare.iter_errors(value)) if faults else bare.is_valid(value),
        "jsonschema": lambda: list(reference.iter_errors(value)) if faults else reference.is_valid(value),
    }


def compilers() -> dict[str, Callable[[], object]]:
    """Each way to make a schema ready, checked for being one."""
    numbers = iter(range(10**9))

    def checked() -> object:
        jsonschema.Draft202012Validator.check_schema(SCHEMA)
        return jsonschema.Draft202012Validator(SCHEMA)

    return {
        "prowess": lambda: compile_schema({**SCHEMA, "$comment": str(next(numbers))}),
        "jsonschema_rs alone": lambda: jsonschema_rs.validator_for(SCHEMA, offline=True),
        "jsonschema": checked,
    }


def timed(task: str, engine: str, use: Callable[[], object], rounds: int) -> dict[str, Any]:
    """CPU microseconds for one use, the best of five."""
    rounds = max(20, rounds // 20) if engine == "jsonschema" else rounds
    best = float("inf")
    for _ in range(5):
        began = time.process_time()
        for _ in range(rounds):
            use()
        best = min(best, (time.process_time() - began) / rounds)
    return {"task": task, "engine": engine, "cpu_microseconds": round(best * 1e6, 1)}


def print_table(rows: list[dict[str, Any]]) -> None:
    peers = {row["task"]: row["cpu_microseconds"] for row in rows if row["engine"] == "jsonschema"}
    print(f"{'task':<34}{'engine':<22}{'CPU µs':>10}{'times as fast':>15}")
    for row in rows:
        ratio = peers[row["task"]] / row["cpu_microseconds"]
        print(f"{row['task']:<34}{row['engine']:<22}{row['cpu_microseconds']:>10,.1f}{ratio:>15.1f}")


if __name__ == "__main__":
    raise SystemExit(main())
