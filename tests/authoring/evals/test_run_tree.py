"""Results are written in the folders and under the names that skill-creator's viewer reads."""

from __future__ import annotations

import json
from pathlib import Path

from prowess.authoring.evals.case import Check, EvalCase
from prowess.authoring.evals.checks import CheckVerdict, make_grade
from prowess.authoring.evals.run_tree import Configuration, TrialRecord, write_run_tree

CASE = EvalCase(
    id="7", name="forms", prompt="Fill it.", checks=(Check(type="expectation", settings={"text": "Is filled."}),)
)


def record(configuration: Configuration, *, trial: int = 1, error: str = "", **fields) -> TrialRecord:
    passed = configuration == "with_skill"
    verdicts = [
        CheckVerdict(type="expectation", description="Is filled.", passed=passed, score=float(passed), evidence="See."),
        CheckVerdict(type="contains", description="Names it.", passed=True, score=1.0, error=error),
    ]
    given = {
        "case": CASE,
        "output": "Done \ud800",
        "seconds": 2.0,
        "tokens": 100,
        "grade": make_grade(verdicts),
        **fields,
    }
    return TrialRecord(configuration=configuration, trial=trial, **given)


def load(path: Path) -> dict:
    return json.loads(path.read_text())


def test_one_trial_has_its_files_in_the_folder_of_its_configuration(tmp_path: Path) -> None:
    made = write_run_tree(tmp_path, "my/skill", [record("with_skill"), record("without_skill", seconds=1.0)], model="m")
    assert made == tmp_path / "my-skill-workspace" / "iteration-1"
    files = sorted(path.relative_to(made).as_posix() for path in made.rglob("*") if path.is_file())
    assert files == [
        "benchmark.json",
        "eval-7/eval_metadata.json",
        *(
            f"eval-7/{side}/{name}"
            for side in ("with_skill", "without_skill")
            for name in ("grading.json", "outputs/output.md", "timing.json")
        ),
    ]
    assert load(made / "eval-7/with_skill/grading.json")["summary"] == {
        "passed": 2,
        "failed": 0,
        "total": 2,
        "pass_rate": 1.0,
    }
    assert load(made / "eval-7/without_skill/grading.json")["expectations"][0] == {
        "text": "Is filled.",
        "passed": False,
        "evidence": "See.",
    }
    assert load(made / "eval-7/with_skill/timing.json") == {
        "total_tokens": 100,
        "duration_ms": 2000,
        "total_duration_seconds": 2.0,
    }


def test_the_benchmark_compares_both_sides(tmp_path: Path) -> None:
    made = write_run_tree(tmp_path, "pdf", [record("with_skill"), record("old_skill", seconds=1.0)], model="m")
    told = load(made / "benchmark.json")
    assert told["metadata"] | {"timestamp": ""} == {
        "skill_name": "pdf",
        "skill_path": "",
        "executor_model": "m",
        "analyzer_model": "m",
        "timestamp": "",
        "evals_run": [7],
        "runs_per_configuration": 1,
    }
    assert [(run["eval_id"], run["configuration"], run["result"]["pass_rate"]) for run in told["runs"]] == [
        (7, "with_skill", 1.0),
        (7, "without_skill", 0.5),
    ]
    assert told["run_summary"]["with_skill"]["pass_rate"] == {"mean": 1.0, "stddev": 0.0, "min": 1.0, "max": 1.0}
    assert told["run_summary"]["delta"] == {"pass_rate": "+0.50", "time_seconds": "+1.0", "tokens": "+0"}
    assert (made / "eval-7" / "old_skill" / "grading.json").is_file()


def test_several_trials_have_a_folder_each(tmp_path: Path) -> None:
    made = write_run_tree(tmp_path, "pdf", [record("with_skill", trial=trial) for trial in (1, 2, 3)])
    assert [path.name for path in sorted((made / "eval-7" / "with_skill").iterdir())] == ["run-1", "run-2", "run-3"]
    assert load(made / "benchmark.json")["metadata"]["runs_per_configuration"] == 3


def test_a_case_that_could_not_be_graded_is_an_error_and_not_in_the_figures(tmp_path: Path) -> None:
    records = [record("with_skill"), record("with_skill", trial=2, error="The judge failed.")]
    told = load(write_run_tree(tmp_path, "pdf", records) / "benchmark.json")
    assert [run["result"]["errors"] for run in told["runs"]] == [0, 1]
    assert told["runs"][1]["notes"] == ["Error: Names it: The judge failed."]
    assert told["run_summary"]["with_skill"]["pass_rate"]["mean"] == 1.0


def test_each_evaluation_is_a_new_iteration(tmp_path: Path) -> None:
    (tmp_path / "pdf-workspace" / "iteration-4").mkdir(parents=True)
    names = [write_run_tree(tmp_path, "pdf", [record("with_skill")]).name for _ in range(2)]
    assert names == ["iteration-5", "iteration-6"]


def test_ids_that_are_not_numbers_are_numbered(tmp_path: Path) -> None:
    cases = [EvalCase(id="../../x", prompt="a"), EvalCase(id="b", inputs={"n": 1})]
    made = write_run_tree(tmp_path, "..", [record("with_skill", case=one) for one in cases])
    assert made.parent == tmp_path / "skill-workspace"
    assert sorted(path.name for path in made.iterdir()) == ["benchmark.json", "eval-0", "eval-1"]
    assert load(made / "eval-0" / "eval_metadata.json")["eval_name"] == "../../x"
