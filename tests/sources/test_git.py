"""Skills are read from git repositories at one commit, and only what changed is fetched again."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest

from prowess.errors import Invalid, NotFound, Refused, Unavailable
from prowess.net.scripted import ScriptedHttpClient
from prowess.sources.fetch import fetch
from prowess.sources.fetch_context import FetchContext
from prowess.sources.fetched import Fetched, SourceState
from prowess.sources.reference import SourceReference, parse_source

from .repositories import ENVIRONMENT, Repository, skill


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repo.git")


@pytest.fixture
def context(tmp_path: Path) -> FetchContext:
    return FetchContext(
        client=ScriptedHttpClient([]),
        cache=tmp_path / "cache",
        protocols=frozenset({"file"}),
        environment=ENVIRONMENT,
    )


def run(source: SourceReference | Repository, context: FetchContext, last: SourceState | None = None) -> Fetched:
    reference = parse_source(source.url) if isinstance(source, Repository) else source
    return asyncio.run(fetch(reference, context, last))


def texts(fetched: Fetched) -> dict[str, dict[str, str]]:
    return {
        each.path: {file.path: file.content.decode() for file in each.package.files} for each in fetched.skills
    }  # fmt: skip


def codes(fetched: Fetched) -> list[str]:
    return [warning.code for warning in fetched.warnings]


def test_the_skills_of_a_repository_are_read_from_one_commit(repository: Repository, context: FetchContext) -> None:
    commit = repository.commit(
        {"skills/pdf/SKILL.md": skill("pdf"), "skills/pdf/scripts/run.sh": "echo", "README.md": "# Readme"},
        modes={"skills/pdf/scripts/run.sh": "100755"},
    )
    fetched = run(repository, context)
    assert texts(fetched) == {"skills/pdf": {"SKILL.md": skill("pdf"), "scripts/run.sh": "echo"}}
    assert fetched.skills[0].package.files[1].mode == "0755"
    assert fetched.skills[0].revision == repository.git("rev-parse", "main:skills/pdf")
    assert (fetched.state.revision, fetched.state.tree) == (commit, repository.git("rev-parse", "main^{tree}"))
    assert fetched.state.checked_at
    assert not fetched.warnings


def test_only_the_files_of_skills_are_fetched(repository: Repository, context: FetchContext) -> None:
    repository.commit({"skills/a/SKILL.md": skill("a"), "data/large.bin": os.urandom(400_000)})
    run(repository, context)
    cached = sum(file.stat().st_size for file in context.cache.rglob("*.pack"))
    assert cached < 50_000


def test_an_unchanged_repository_is_not_fetched(repository: Repository, context: FetchContext) -> None:
    repository.commit({"a/SKILL.md": skill("a")})
    first = run(repository, context)
    again = run(repository, replace(context, max_bytes=1_000), first.state)
    assert again.unchanged
    assert not again.skills
    assert replace(again.state, checked_at="") == replace(first.state, checked_at="")


def test_a_commit_that_changes_no_skill_counts_as_unchanged(repository: Repository, context: FetchContext) -> None:
    repository.commit({"skills/a/SKILL.md": skill("a"), "README.md": "one"})
    reference = parse_source(repository.url).at(path="skills")
    first = run(reference, context)
    commit = repository.commit({"README.md": "two"})
    again = run(reference, context, first.state)
    assert again.unchanged
    assert again.state.revision == commit


def test_a_later_fetch_brings_only_what_changed(repository: Repository, context: FetchContext) -> None:
    repository.commit(
        {f"skills/s{number}/SKILL.md": skill(f"s{number}", os.urandom(999).hex()) for number in range(50)}
    )
    first = run(repository, context)
    repository.commit({"skills/s7/SKILL.md": skill("s7", "New text.")})
    before = set(context.cache.rglob("*.pack"))
    again = run(repository, context, first.state)
    assert len(again.skills) == 50
    assert texts(again)["skills/s7"] == {"SKILL.md": skill("s7", "New text.")}
    assert not again.warnings
    assert sum(pack.stat().st_size for pack in set(context.cache.rglob("*.pack")) - before) < 10_000


def test_branches_tags_and_commits_select_a_version(repository: Repository, context: FetchContext) -> None:
    old = repository.commit({"a/SKILL.md": skill("a", "old")})
    repository.git("tag", "light", old)
    repository.git("-c", "user.name=A", "-c", "user.email=a@x", "tag", "-m", "x", "signed", old)
    repository.git("update-ref", "refs/heads/feature/x", old)
    repository.commit({"a/SKILL.md": skill("a", "new")})
    for ref in ("light", "signed", "feature/x", old, "refs/tags/light"):
        fetched = run(parse_source(repository.url).at(ref=ref), context)
        assert texts(fetched) == {"a": {"SKILL.md": skill("a", "old")}}, ref
        assert fetched.state.revision == old
    assert texts(run(repository, context)) == {"a": {"SKILL.md": skill("a", "new")}}


def test_a_pinned_commit_is_never_asked_for_again(repository: Repository, context: FetchContext) -> None:
    commit = repository.commit({"a/SKILL.md": skill("a")})
    reference = parse_source(repository.url).at(ref=commit)
    first = run(reference, context)
    repository.folder.rename(repository.folder.with_name("gone"))
    assert run(reference, context, first.state).unchanged


def test_the_branch_in_a_url_may_have_slashes(repository: Repository, context: FetchContext) -> None:
    repository.commit({"skills/a/SKILL.md": skill("a")}, branch="feature/x")
    repository.commit({"other/SKILL.md": skill("other")})
    fetched = run(parse_source(repository.url).at(ref="feature", path="x/skills"), context)
    assert list(texts(fetched)) == ["skills/a"]


def test_a_path_selects_a_folder_or_a_file(repository: Repository, context: FetchContext) -> None:
    repository.commit(
        {"x/a/SKILL.md": skill("a"), "x/a/notes.md": "n", "y/b/SKILL.md": skill("b"), "y/c.md": skill("c")}
    )
    at = parse_source(repository.url).at
    assert list(texts(run(at(path="x"), context))) == ["x/a"]
    assert texts(run(at(path="x/a"), context)) == {"x/a": {"SKILL.md": skill("a"), "notes.md": "n"}}
    assert texts(run(at(path="y/c.md"), context)) == {"y/c.md": {"c.md": skill("c")}}


def test_a_skill_at_the_root_has_the_name_of_the_repository(repository: Repository, context: FetchContext) -> None:
    repository.commit({"SKILL.md": skill("repo"), "scripts/x.py": "x", "skills/inner/SKILL.md": skill("inner")})
    fetched = run(repository, context)
    assert [(each.path, each.package.name) for each in fetched.skills] == [("", "repo")]


def test_every_markdown_file_is_a_skill_of_a_github_source(repository: Repository, context: FetchContext) -> None:
    repository.commit(
        {
            "skills/oncall.md": skill("oncall"),
            "skills/deep/db.md": "# Databases\n\nUse indexes.\n",
            "skills/pdf/SKILL.md": skill("pdf"),
            "skills/pdf/references/more.md": "more",
            "skills/README.md": "# About",
        }
    )
    fetched = run(parse_source(repository.url).at(path="skills"), replace(context, every_markdown=True))
    assert sorted(texts(fetched)) == ["skills/deep/db.md", "skills/oncall.md", "skills/pdf"]


def test_one_skill_is_selected_by_its_name(repository: Repository, context: FetchContext) -> None:
    repository.commit({"skills/one/SKILL.md": skill("first-skill"), "skills/two/SKILL.md": skill("two")})
    at = parse_source(repository.url).at
    assert list(texts(run(at(skill="First Skill"), context))) == ["skills/one"]
    assert list(texts(run(at(skill="one"), context))) == ["skills/one"]
    with pytest.raises(NotFound) as error:
        run(at(skill="tow"), context)
    assert error.value.hint == "Did you mean 'two'?"


def test_a_rewritten_history_is_a_warning(repository: Repository, context: FetchContext) -> None:
    base = repository.commit({"a/SKILL.md": skill("a")})
    repository.commit({"a/SKILL.md": skill("a", "good")})
    last = run(repository, context)
    repository.commit({"a/SKILL.md": skill("a", "evil")}, onto=base)
    fetched = run(repository, context, last.state)
    assert codes(fetched) == ["history-rewritten"]
    assert last.state.revision in fetched.warnings[0].message


def test_a_branch_that_went_back_is_a_warning(repository: Repository, context: FetchContext) -> None:
    old = repository.commit({"a/SKILL.md": skill("a", "vulnerable")})
    repository.commit({"a/SKILL.md": skill("a", "fixed")})
    last = run(repository, context)
    repository.git("update-ref", "refs/heads/main", old)
    fetched = run(repository, context, last.state)
    assert codes(fetched) == ["history-rewritten"]
    assert texts(fetched)["a"]["SKILL.md"] == skill("a", "vulnerable")


def test_a_history_that_continues_after_many_commits_is_no_warning(
    repository: Repository, context: FetchContext
) -> None:
    repository.commit({"a/SKILL.md": skill("a", "0")})
    last = run(repository, context)
    for number in range(1, 5):
        repository.commit({"a/SKILL.md": skill("a", str(number))})
    assert not run(repository, context, last.state).warnings


def test_a_moved_tag_is_a_warning(repository: Repository, context: FetchContext) -> None:
    repository.git("tag", "v1", repository.commit({"a/SKILL.md": skill("a")}))
    reference = parse_source(repository.url).at(ref="v1")
    last = run(reference, context)
    repository.git("tag", "--force", "v1", repository.commit({"a/SKILL.md": skill("a", "other")}))
    assert codes(run(reference, context, last.state)) == ["tag-moved"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ref": "nothing"}, "no branch or tag 'nothing'"),
        ({"path": "nothing/here"}, "no path 'nothing/here'"),
        ({"ref": "0" * 40}, "no commit"),
        ({"path": "docs"}, "no skills in 'docs'"),
    ],
)
def test_what_is_missing_is_named(
    repository: Repository, context: FetchContext, change: dict[str, str], message: str
) -> None:
    repository.commit({"skills/a/SKILL.md": skill("a"), "docs/x.txt": "x"})
    with pytest.raises(NotFound, match=message):
        run(parse_source(repository.url).at(**change), context)


def test_a_missing_or_empty_repository_is_named(repository: Repository, context: FetchContext, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no commits"):
        run(repository, context)
    with pytest.raises(NotFound, match="does not exist"):
        run(parse_source(f"file://{tmp_path}/nothing.git"), context)


def test_a_transport_that_is_not_allowed_is_refused(repository: Repository, context: FetchContext) -> None:
    repository.commit({"a/SKILL.md": skill("a")})
    with pytest.raises(Refused, match=r"'file' of .* is not allowed") as refused:
        run(repository, replace(context, protocols=frozenset({"https", "ssh"})))
    assert refused.value.hint.endswith("set PROWESS_GIT_PROTOCOLS=https,ssh,file.")


def test_ssh_is_not_used_without_the_credentials_of_a_user(context: FetchContext) -> None:
    shared = replace(context, protocols=frozenset({"https", "ssh"}), credentials=False)
    with pytest.raises(Refused, match=r"'ssh' of .* is not allowed"):
        run(parse_source("git@host.example:owner/repo.git"), shared)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "169.254.169.254", "10.0.0.1"])
def test_a_private_address_is_refused_before_git_starts(context: FetchContext, host: str) -> None:
    with pytest.raises(Refused, match="not public"):
        run(parse_source(f"https://{host}/owner/repo.git"), replace(context, protocols=frozenset({"https"})))


@pytest.mark.parametrize("options", [["--upload-pack=touch /tmp/x"], ["-x"]])
def test_a_hostile_ref_or_path_cannot_be_an_option(context: FetchContext, options: list[str]) -> None:
    reference = parse_source("owner/repo")
    for option in options:
        with pytest.raises(Invalid):
            reference.at(ref=option)


def test_links_and_submodules_make_only_their_own_skill_unreadable(
    repository: Repository, context: FetchContext
) -> None:
    repository.commit(
        {
            "skills/good/SKILL.md": skill("good"),
            "skills/link/SKILL.md": skill("link"),
            "skills/link/secret": "/etc/passwd",
            "skills/sub/SKILL.md": skill("sub"),
            "skills/sub/vendor": "1" * 40,
            "elsewhere": "/etc/passwd",
        },
        modes={"skills/link/secret": "120000", "skills/sub/vendor": "160000", "elsewhere": "120000"},
    )
    fetched = run(repository, context)
    assert list(texts(fetched)) == ["skills/good"]
    errors = {each.path: each.error.message for each in fetched.unreadable}
    assert errors == {
        "skills/link": "'secret' is a symbolic link, which is not followed.",
        "skills/sub": "'vendor' is a submodule, which is not followed.",
    }


def test_a_skill_that_is_itself_a_link_is_not_a_skill(repository: Repository, context: FetchContext) -> None:
    repository.commit(
        {"skills/a/SKILL.md": skill("a"), "skills/b": "/etc", ".claude/skills/a": "../../skills/a"},
        modes={"skills/b": "120000", ".claude/skills/a": "120000"},
    )
    assert list(texts(run(repository, context))) == ["skills/a"]


def test_the_hooks_templates_and_settings_of_a_user_do_nothing(
    repository: Repository, context: FetchContext, tmp_path: Path
) -> None:
    repository.commit({"a/SKILL.md": skill("a")})
    trap = tmp_path / "trap"
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("reference-transaction", "post-checkout", "fsmonitor"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {trap}\n")
        (hooks / name).chmod(0o755)
    config = tmp_path / "config"
    config.write_text(
        f"[core]\n\thooksPath = {hooks}\n\tfsmonitor = {hooks}/fsmonitor\n[fetch]\n\trecurseSubmodules = yes\n"
        "[protocol]\n\tallow = always\n[init]\n\ttemplateDir = /tmp\n"
    )
    environment = {**ENVIRONMENT, "GIT_CONFIG_GLOBAL": str(config), "GIT_DIR": "/tmp/x", "GIT_WORK_TREE": "/tmp"}
    assert run(repository, replace(context, environment=environment)).skills
    assert not trap.exists()


def test_without_git_the_error_says_what_to_install(
    repository: Repository, context: FetchContext, tmp_path: Path
) -> None:
    with pytest.raises(Unavailable, match="git is not installed") as error:
        run(repository, replace(context, environment={"PATH": str(tmp_path)}))
    assert "2.39.4" in error.value.hint


def test_an_old_git_is_refused(repository: Repository, context: FetchContext, tmp_path: Path) -> None:
    program = tmp_path / "bin/git"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho git version 2.30.2\n")
    program.chmod(0o755)
    with pytest.raises(Unavailable, match=r"git 2\.30\.2 is too old"):
        run(repository, replace(context, environment={"PATH": f"{program.parent}:{os.environ['PATH']}"}))


def test_two_fetches_at_once_share_the_cache(repository: Repository, context: FetchContext) -> None:
    repository.commit({"a/SKILL.md": skill("a")})
    reference = parse_source(repository.url)

    async def both() -> tuple[Fetched, Fetched]:
        return await asyncio.gather(fetch(reference, context), fetch(reference, context))

    assert [len(fetched.skills) for fetched in asyncio.run(both())] == [1, 1]


def test_a_repository_is_read_over_ssh_with_the_settings_of_the_user(
    repository: Repository, context: FetchContext, tmp_path: Path
) -> None:
    """In place of ssh, a program that notes whom it is to reach, and runs the command here."""
    repository.commit({"a/SKILL.md": skill("a")})
    program = tmp_path / "ssh"
    program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/log\nfor last; do :; done\nexec sh -c "$last"\n')
    program.chmod(0o755)
    context = replace(
        context,
        protocols=frozenset({"ssh"}),
        environment={**ENVIRONMENT, "GIT_SSH_COMMAND": str(program), "GIT_SSH_VARIANT": "ssh"},
    )
    assert run(parse_source(f"ssh://git@host.example{repository.folder}"), context).skills
    assert "git@host.example git-upload-pack" in (tmp_path / "log").read_text()
