"""Files with secrets, on a disk that does not take them."""

from __future__ import annotations

import errno
import io
import os

import pytest

from prowess.errors import Refused, Unavailable
from prowess.storage.secret_file import load_or_create_secret, read_secret, write_secret


class FullDisk(io.StringIO):
    def __init__(self, descriptor: int, _: str) -> None:
        super().__init__()
        os.close(descriptor)

    def write(self, _: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("store", [load_or_create_secret, lambda path: write_secret(path, "s" * 43)])
def test_a_full_disk_is_named_and_leaves_no_file(store, tmp_path, monkeypatch):
    monkeypatch.setattr("os.fdopen", FullDisk)
    with pytest.raises(Unavailable) as refused:
        store(tmp_path / "key")
    assert refused.value.hint == "Free some disk space and try again."
    assert list(tmp_path.iterdir()) == []


def test_a_pipe_in_its_place_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "key", 0o600)
    with pytest.raises(Refused, match="not a regular file"):
        read_secret(tmp_path / "key")


def test_a_secret_is_made_once_and_replaced_on_request(tmp_path):
    made = load_or_create_secret(tmp_path / "key")
    assert load_or_create_secret(tmp_path / "key") == made
    write_secret(tmp_path / "key", "s" * 43)
    assert read_secret(tmp_path / "key") == "s" * 43
