"""Discovery: the skill folders that agents already use are found, and only those."""

from __future__ import annotations

from pathlib import Path

import pytest

from prowess.catalog.discovery import (
    AGENTS,
    NESTED_FOLDERS,
    find_agents,
    project_folders,
    sibling_roots,
    user_roots,
    workspace_roots,
)


def make(base: Path, *folders: str) -> None:
    for folder in folders:
        (base / folder).mkdir(parents=True)


def skill(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: x\ndescription: x\n---\n")


def below(base: Path, roots: list[Path]) -> list[str]:
    return [str(root.relative_to(base)) for root in roots]


def test_the_table_names_every_agent_once_and_no_folder_twice():
    assert len({agent.agent for agent in AGENTS}) == len(AGENTS) == 73
    assert len(set(project_folders())) == len(project_folders())
    assert project_folders()[:2] == (".agents/skills", ".claude/skills")
    assert all(not folder.startswith(("/", "~")) for folder in project_folders())


def test_an_empty_workspace_has_no_skill_folders(tmp_path):
    assert workspace_roots(tmp_path) == []


def test_the_folders_of_all_agents_are_found_with_the_common_one_first(tmp_path):
    make(tmp_path, ".windsurf/skills", ".claude/skills", ".agents/skills", ".tabnine/agent/skills", ".unknown/skills")
    assert below(tmp_path, workspace_roots(tmp_path)) == [
        ".agents/skills",
        ".claude/skills",
        ".tabnine/agent/skills",
        ".windsurf/skills",
    ]


@pytest.mark.parametrize(
    ("folder", "agents"),
    [
        (".agent/skills", ("antigravity", "droid")),
        (".cline/skills", ("cline",)),
        (".clinerules/skills", ("cline",)),
        (".codex/skills", ("codex", "cursor")),
        (".cursor/skills", ("crush", "cursor")),
        (".gemini/skills", ("gemini-cli",)),
        (".github/skills", ("github-copilot",)),
        (".kilo/skills", ("kilo",)),
        (".opencode/skills", ("opencode",)),
        (".claude/skills", ("claude-code", "cline", "crush", "cursor", "github-copilot", "goose", "opencode")),
    ],
)
def test_folders_that_agents_read_beside_the_shared_one_are_found(tmp_path, folder, agents):
    make(tmp_path, folder)
    assert below(tmp_path, workspace_roots(tmp_path)) == [folder]
    assert find_agents(tmp_path / folder, tmp_path / "home", {}) == agents


def test_the_search_goes_up_to_the_root_of_the_repository_and_no_further(tmp_path):
    make(tmp_path, ".agents/skills", "repo/.git", "repo/.claude/skills", "repo/a/.agents/skills", "repo/a/b")
    assert below(tmp_path, workspace_roots(tmp_path / "repo/a/b")) == ["repo/a/.agents/skills", "repo/.claude/skills"]


def test_outside_of_a_repository_only_the_workspace_is_searched(tmp_path):
    make(tmp_path, ".agents/skills", "a/.claude/skills")
    assert below(tmp_path, workspace_roots(tmp_path / "a")) == ["a/.claude/skills"]


def test_a_work_tree_whose_git_is_a_file_is_a_repository_too(tmp_path):
    make(tmp_path, ".agents/skills", "tree/sub", "tree/.claude/skills")
    (tmp_path / "tree/.git").write_text("gitdir: elsewhere\n")
    assert below(tmp_path, workspace_roots(tmp_path / "tree/sub")) == ["tree/.claude/skills"]


def test_nested_folders_are_found_after_the_nearer_ones(tmp_path):
    make(
        tmp_path,
        ".agents/skills",
        "packages/web/.claude/skills",
        "api/.agents/skills",
        "node_modules/x/.claude/skills",
        ".hidden/.claude/skills",
        "a/b/c/d/.claude/skills",
    )
    skill(tmp_path / "api/skills/tidy")
    assert below(tmp_path, workspace_roots(tmp_path)) == [
        ".agents/skills",
        "api/.agents/skills",
        "packages/web/.claude/skills",
    ]


def test_the_search_below_the_workspace_ends(tmp_path):
    for number in range(NESTED_FOLDERS + 5):
        (tmp_path / f"d{number:05}").mkdir()
    make(tmp_path, f"d{NESTED_FOLDERS + 4:05}/.claude/skills", "d00000/.claude/skills")
    assert below(tmp_path, workspace_roots(tmp_path)) == ["d00000/.claude/skills"]


def test_a_skill_folder_is_not_searched_for_others(tmp_path):
    skill(tmp_path / "skills/tidy")
    make(tmp_path, "skills/tidy/.claude/skills", "web/.claude/skills")
    assert below(tmp_path, workspace_roots(tmp_path)) == ["skills", "web/.claude/skills"]


@pytest.mark.parametrize("name", ["skills", "data/skills", "agent/skills"])
def test_a_folder_with_a_plain_name_counts_only_if_it_holds_skills(tmp_path, name):
    make(tmp_path, f"{name}/notes")
    assert workspace_roots(tmp_path) == []
    skill(tmp_path / name / "category/tidy")
    assert below(tmp_path, workspace_roots(tmp_path)) == [name]


def test_a_folder_that_is_another_name_of_one_is_given_once(tmp_path):
    make(tmp_path, ".agents/skills", ".claude")
    (tmp_path / ".claude/skills").symlink_to("../.agents/skills")
    assert below(tmp_path, workspace_roots(tmp_path)) == [".agents/skills"]


def test_a_skill_folder_that_is_a_link_out_of_the_workspace_is_left_out(tmp_path):
    make(tmp_path, "elsewhere", "work/.claude")
    (tmp_path / "work/.claude/skills").symlink_to(tmp_path / "elsewhere")
    assert workspace_roots(tmp_path / "work") == []


def test_the_folders_in_a_home_are_found(tmp_path):
    make(tmp_path, ".claude/skills", ".agents/skills", ".codex/skills", ".config/goose/skills", ".moltbot/skills")
    assert below(tmp_path, user_roots(tmp_path, {})) == [
        ".agents/skills",
        ".claude/skills",
        ".moltbot/skills",
        ".codex/skills",
        ".config/goose/skills",
    ]


def test_a_variable_moves_an_agents_folder(tmp_path):
    home = tmp_path / "home"
    make(home, ".claude/skills", ".config/goose/skills")
    make(tmp_path, "claude/skills", "config/goose/skills", "config/agents/skills")
    environment = {"CLAUDE_CONFIG_DIR": str(tmp_path / "claude"), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    assert below(tmp_path, user_roots(home, environment)) == [
        "config/agents/skills",
        "claude/skills",
        "config/goose/skills",
    ]


@pytest.mark.parametrize("value", ["", "relative/path"])
def test_a_variable_that_names_no_place_is_ignored(tmp_path, value):
    make(tmp_path, ".claude/skills")
    assert below(tmp_path, user_roots(tmp_path, {"CLAUDE_CONFIG_DIR": value})) == [".claude/skills"]


@pytest.mark.parametrize(
    ("folder", "agent"),
    [(".cline/skills", "cline"), (".kilo/skills", "kilo"), (".gemini/config/skills", "antigravity")],
)
def test_further_folders_of_an_agent_in_a_home_are_found_beside_the_first(tmp_path, folder, agent):
    make(tmp_path, ".agents/skills", ".kilocode/skills", ".gemini/antigravity/skills", folder)
    assert folder in below(tmp_path, user_roots(tmp_path, {}))
    assert len(user_roots(tmp_path, {})) == 4
    assert find_agents(tmp_path / folder, tmp_path, {}) == (agent,)


def test_of_several_places_of_one_agent_the_first_that_exists_counts(tmp_path):
    make(tmp_path, ".openclaw/skills", ".clawdbot/skills")
    assert below(tmp_path, user_roots(tmp_path, {})) == [".openclaw/skills"]


def test_the_skill_folders_of_one_base_know_each_other(tmp_path):
    make(tmp_path, ".claude/skills", ".agents/skills", ".tabnine/agent/skills")
    assert sibling_roots(tmp_path / ".tabnine/agent/skills") == [
        tmp_path / ".agents/skills",
        tmp_path / ".claude/skills",
        tmp_path / ".tabnine/agent/skills",
    ]
    assert sibling_roots(tmp_path / "other") == []
