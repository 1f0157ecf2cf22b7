"""Run the conformance suite of the protocol against our server."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.long  # needs Node packages from a registry

HERE = Path(__file__).parent / "conformance"
VERSIONS = {"2025-11-25": ["server-sse-polling"], "2026-07-28": []}
SKILLS = ("sep-2640-skills-enumeration", "sep-2640-skills-manifest", "sep-2640-skills-directory")


@pytest.fixture(scope="module")
def server(served_home, start_server, write_files) -> str:
    """Start the server under test, with more skills than fit on a page, and return its address."""
    write_files(
        served_home / "workspace/.agents/skills/aardvark",
        {"SKILL.md": "---\nname: aardvark\ndescription: The first.\n---\n\nDig.\n", "scripts/dig.py": "dig()\n"},
    )
    for number in range(60):
        folder = served_home / f"workspace/.agents/skills/many-{number:02}"
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\nname: many-{number:02}\ndescription: Number {number}.\n---\n\nText.\n")
    return start_server([sys.executable, str(HERE / "server.py"), str(served_home / "workspace")], served_home)


@pytest.fixture(scope="module")
def conformance(node, server, tmp_path_factory):
    """Run the suite; the result has its output, and the checks of every scenario by name."""
    program = "@modelcontextprotocol/conformance/dist/index.js"

    def run(*arguments: str):
        results = tmp_path_factory.mktemp("results")
        ran = node(program, "server", "--url", server, "-o", str(results), *arguments)
        checks = {
            re.sub(r"^server-|-\d{4}-\d\d-\d\dT.*$", "", path.parent.name): json.loads(path.read_text())
            for path in results.glob("*/checks.json")
        }
        return ran, checks

    return run


@pytest.mark.parametrize("version", VERSIONS)
def test_every_scenario_of_a_revision_passes_but_those_that_are_expected_not_to(conformance, version):
    expected = HERE / "expected-failures.yaml"
    ran, checks = conformance("--suite", "all", "--spec-version", version, "--timeout", "60000")
    failed = sorted(name for name, found in checks.items() if any(check["status"] == "FAILURE" for check in found))
    assert failed == VERSIONS[version], ran.stdout[-4000:]
    assert set(failed) <= set(yaml.safe_load(expected.read_text())["server"])
    assert len(checks) > 30


@pytest.mark.parametrize("scenario", SKILLS)
def test_the_scenarios_of_the_skills_extension_pass_without_a_warning(conformance, scenario):
    ran, checks = conformance("--scenario", scenario)
    (found,) = checks.values()
    assert ran.returncode == 0, ran.stdout[-4000:]
    assert {check["status"] for check in found} == {"SUCCESS"}
    assert len(found) > 5


def test_every_expected_failure_is_one_that_happens():
    expected = yaml.safe_load((HERE / "expected-failures.yaml").read_text())["server"]
    assert set(expected) == {name for names in VERSIONS.values() for name in names}
