"""The repository keeps its own promises: a small core, locked dependencies, an error for every door."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from prowess.errors import ProwessError
from prowess.interfaces.cli.error_output import EXIT_CODES, exit_code

ROOT = Path(__file__).resolve().parents[2]


def locked(name: str) -> set[str]:
    return set(re.findall(r"^([a-z0-9-]+)==", (ROOT / f"requirements/{name}.txt").read_text(), re.MULTILINE))


def test_the_core_install_is_small_and_free_of_model_frameworks():
    core = locked("core")
    # Three of them are the parsers of the scanner, 7 MB together.
    assert len(core) <= 28
    assert not core & {"dspy", "dspy-ai", "litellm", "torch"}


def test_every_locked_dependency_has_hashes_and_no_address():
    for name in ("core", "dev", "run", "uv"):
        text = (ROOT / f"requirements/{name}.txt").read_text()
        assert text.count("==") <= text.count("--hash=sha256:")
        assert "://" not in text
        assert "--index" not in text


def test_the_locks_of_the_sidecar_have_the_hashes_of_every_platform():
    """A lock that was made from an index with the files of one platform installs on that platform only."""
    for path in ("src/prowess_dspy/requirements.txt", "requirements/sidecar-build.txt"):
        text = (ROOT / path).read_text()
        assert "://" not in text
        assert "--index" not in text
        for entry in re.split(r"\n(?=\S)", text.partition("scripts/lock\n")[2].strip()):
            assert entry.count("--hash=sha256:") >= 2, entry


def test_importing_prowess_is_light():
    code = (
        "import sys, prowess\n"
        "heavy = {'sqlalchemy', 'alembic', 'click', 'rich', 'dspy', 'litellm', 'psycopg'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_one_module_hands_blocking_work_to_threads():
    sources = [path for path in (ROOT / "src/prowess").rglob("*.py") if "asyncio.to_thread(" in path.read_text()]
    assert [path.name for path in sources] == ["threads.py"]


def test_the_public_names_are_sorted_and_all_there():
    import prowess

    assert list(prowess.__all__) == sorted(prowess.__all__)
    for name in prowess.__all__:
        assert getattr(prowess, name) is not None


def test_every_error_family_has_an_exit_code_of_its_own():
    families = ProwessError.__subclasses__()
    codes = [EXIT_CODES[family] for family in families]
    assert len(set(codes)) == len(families)
    for family in families:
        for error in (family, *family.__subclasses__()):
            assert exit_code(error.__new__(error, "x")) == EXIT_CODES[family]


def test_no_source_file_is_too_large():
    ran = subprocess.run([sys.executable, ROOT / "scripts/file_sizes.py"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout


def test_the_choices_of_the_command_line_are_those_of_the_engine():
    """They are written down twice, so that `--help` need not import the engine."""
    from prowess.catalog.exporter import ARCHIVES
    from prowess.interfaces.cli.commands import export, packages, skills, stats, traces
    from prowess.skill.form_info import FORMS
    from prowess.skill.model import SCOPES
    from prowess.skill.profiles import PROFILE_NAMES
    from prowess.storage.trace_stats import GROUPINGS
    from prowess.storage.traces import STATUSES
    from prowess.traces.export import EXPORT_FORMATS

    assert skills.SCOPES == SCOPES
    assert set(packages.PROFILES) == set(PROFILE_NAMES)
    assert set(export.EXPORT_FORMS) == {*FORMS, *ARCHIVES}
    assert traces.TRACE_STATUSES == STATUSES
    assert set(traces.EXPORT_FORMATS) == set(EXPORT_FORMATS)
    assert set(stats.GROUPINGS) == set(GROUPINGS)
