"""Settings come from the environment, once, and say so when they are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from prowess.engine.stores import make_limits
from prowess.errors import Invalid
from prowess.settings import read_settings


def test_everything_has_a_default(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = read_settings({"HOME": str(tmp_path)})
    assert settings.home == tmp_path / ".prowess"
    assert settings.workspace == tmp_path
    assert settings.account_database == f"sqlite:///{tmp_path}/.prowess/agents.db"
    assert settings.workspace_database == f"sqlite:///{tmp_path}/.prowess/agents.db"
    assert make_limits(settings).files == 1000


def test_the_environment_says_where_things_live(tmp_path):
    (tmp_path / "ws").mkdir()
    settings = read_settings(
        {
            "HOME": "/nobody",
            "PROWESS_HOME": str(tmp_path / "elsewhere"),
            "PROWESS_WORKSPACE": str(tmp_path / "ws"),
            "PROWESS_DATABASE_URL": "postgresql://host/name",
            "PROWESS_MAX_FILES": "7",
        }
    )
    assert settings.home == tmp_path / "elsewhere"
    assert settings.workspace == tmp_path / "ws"
    assert settings.account_database == "postgresql://host/name"
    assert make_limits(settings).files == 7
    assert make_limits(settings).file_bytes == 5 * 1024 * 1024


def test_an_explicit_workspace_wins(tmp_path):
    (tmp_path / "ws").mkdir()
    settings = read_settings({"HOME": str(tmp_path), "PROWESS_WORKSPACE": "/nowhere"}, workspace=tmp_path / "ws")
    assert settings.workspace == tmp_path / "ws"


@pytest.mark.parametrize("value", ["", "many", "-1", "0", "1.5", "١٢"])
def test_a_limit_that_is_no_number_is_refused_by_name(value):
    with pytest.raises(Invalid, match="PROWESS_MAX_FILES"):
        read_settings({"HOME": "/", "PROWESS_MAX_FILES": value}, workspace="/")


def test_a_database_password_is_not_shown_by_accident(tmp_path):
    settings = read_settings({"HOME": "/", "PROWESS_DATABASE_URL": "postgresql://me:hunter2@h/n"}, workspace=Path("/"))
    assert "hunter2" not in repr(settings)


def test_the_transports_of_git_can_be_chosen(tmp_path: Path) -> None:
    assert read_settings({"HOME": str(tmp_path)}).git_protocols == ("https", "ssh")
    assert read_settings({"HOME": "/", "PROWESS_GIT_PROTOCOLS": "HTTPS, file"}).git_protocols == ("https", "file")
    with pytest.raises(Invalid, match="'ext'"):
        read_settings({"HOME": "/", "PROWESS_GIT_PROTOCOLS": "https,ext"})
