"""The file in which DBOS records what is done."""

from __future__ import annotations

from pathlib import Path

from prowess.jobs.system import FILE, SystemDatabase


def test_only_the_owner_can_read_the_records_of_jobs(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    SystemDatabase(f"sqlite:///{tmp_path / 'agents.db'}")
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
