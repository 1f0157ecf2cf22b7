"""An approval is for these bytes: changed in any way, a person is asked again and shown what changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from prowess.errors import ApprovalRequired
from prowess.policy.actor import Actor
from prowess.policy.approvals import Approvals
from prowess.policy.gate import find_last_approved
from prowess.policy.subject import Subject
from prowess.skill.edit import diff_packages
from prowess.skill.package import File, Package

SubjectOf = Callable[..., Subject]
Change = Callable[[Package], Package]


def edited(package: Package, path: str, change: Callable[[bytes], bytes]) -> Package:
    file = package.get(path)
    assert file is not None
    return package.with_files([File(path=path, content=change(file.content), mode=file.mode)])


def moved(package: Package, old: str, new: str) -> Package:
    file = package.get(old)
    assert file is not None
    return package.without([old]).with_files([File(path=new, content=file.content, mode=file.mode)])


def swapped(package: Package) -> Package:
    one, two = package.get("references/locks.md"), package.get("scripts/top.sh")
    assert one is not None
    assert two is not None
    return package.with_files([File(path=one.path, content=two.content), File(path=two.path, content=one.content)])


NOTHING: dict[str, list[str]] = {"added": [], "removed": [], "changed": []}
CHANGES: dict[str, tuple[Change, dict[str, list[str]]]] = {
    "one byte": (
        lambda p: edited(p, "references/locks.md", lambda b: b[:-1] + b"!"),
        {"changed": ["references/locks.md"]},
    ),
    "one bit": (
        lambda p: edited(p, "scripts/top.sh", lambda b: bytes([b[0] ^ 1]) + b[1:]),
        {"changed": ["scripts/top.sh"]},
    ),
    "a byte at the end": (lambda p: edited(p, "SKILL.md", lambda b: b + b"\n"), {"changed": ["SKILL.md"]}),
    "line ends": (
        lambda p: edited(p, "SKILL.md", lambda b: b.replace(b"\n", b"\r\n")),
        {"changed": ["SKILL.md"]},
    ),
    "frontmatter only": (
        lambda p: edited(p, "SKILL.md", lambda b: b.replace(b"name: triage\n", b"name: triage\nlicense: MIT\n")),
        {"changed": ["SKILL.md"]},
    ),
    "order of the lines of frontmatter": (
        lambda p: edited(
            p,
            "SKILL.md",
            lambda b: b.replace(
                b"name: triage\ndescription: Triage of slow databases.\n",
                b"description: Triage of slow databases.\nname: triage\n",
            ),
        ),
        {"changed": ["SKILL.md"]},
    ),
    "path": (
        lambda p: moved(p, "scripts/top.sh", "scripts/ps.sh"),
        {"added": ["scripts/ps.sh"], "removed": ["scripts/top.sh"]},
    ),
    "path in case only": (
        lambda p: moved(p, "scripts/top.sh", "scripts/Top.sh"),
        {"added": ["scripts/Top.sh"], "removed": ["scripts/top.sh"]},
    ),
    "mode": (
        lambda p: p.with_files([File(path="scripts/top.sh", content=b"ps\n", mode="0755")]),
        {"changed": ["scripts/top.sh"]},
    ),
    "contents in another order": (swapped, {"changed": ["references/locks.md", "scripts/top.sh"]}),
    "added file": (
        lambda p: p.with_files([File(path="scripts/more.sh", content=b"rm\n")]),
        {"added": ["scripts/more.sh"]},
    ),
    "added empty file": (
        lambda p: p.with_files([File(path=".mcp.json", content=b"")]),
        {"added": [".mcp.json"]},
    ),
    "removed file": (lambda p: p.without(["references/locks.md"]), {"removed": ["references/locks.md"]}),
    "content moved from one file to the next": (
        lambda p: edited(edited(p, "references/locks.md", lambda b: b[:-1]), "scripts/top.sh", lambda b: b"." + b),
        {"changed": ["references/locks.md", "scripts/top.sh"]},
    ),
}


@pytest.mark.few(8)
@pytest.mark.parametrize("way", CHANGES)
def test_changed_content_is_not_used_and_the_question_says_what_changed(
    desk: Any, ann: Actor, agent: Actor, package: Package, subject_of: SubjectOf, way: str
) -> None:
    change, expected = CHANGES[way]
    old, new = subject_of(package), subject_of(change(package))
    approved = desk.admit(agent, "enable", old).error.approval_id
    Approvals(desk.database).resolve(ann, approved, approved=True)
    assert desk.admit(agent, "load", old).allowed

    asked = [desk.admit(agent, action, new) for action in ("enable", "load", "load_script")]

    assert all(isinstance(admission.error, ApprovalRequired) for admission in asked)
    assert "has changed since the last approval" in asked[0].error.message
    assert asked[0].approval.digest == new.digest
    previous = asked[0].approval.detail["previous"]
    assert previous == {"digest": old.digest, "by": "ann", "approval_id": approved, **NOTHING, **expected}


def test_changed_content_takes_the_old_approval_back_so_that_nobody_returns_to_it_unasked(
    desk: Any, ann: Actor, agent: Actor, package: Package, subject_of: SubjectOf
) -> None:
    old, new = subject_of(package), subject_of(CHANGES["one byte"][0](package))
    approved = desk.admit(agent, "enable", old).error.approval_id
    approvals = Approvals(desk.database)
    approvals.resolve(ann, approved, approved=True)

    desk.admit(agent, "enable", new)

    assert approvals.get(ann, approved).state == "revoked"
    assert isinstance(desk.admit(agent, "enable", old).error, ApprovalRequired)
    outcomes = [
        ("enable", "asked"),
        ("approve", "approved"),
        ("approve", "revoked"),
        ("enable", "asked"),
        ("enable", "asked"),
    ]
    assert desk.outcomes() == outcomes
    revoked = desk.audit()[2]
    assert (revoked.digest, revoked.detail["why"]) == (old.digest, "content-changed")
    assert desk.events()[2][1]["outcome"] == "revoked"


def test_what_was_approved_before_is_named_also_when_nobody_answered_the_first_question(
    desk: Any, ann: Actor, agent: Actor, package: Package, subject_of: SubjectOf
) -> None:
    old, new = subject_of(package), subject_of(CHANGES["one byte"][0](package))
    approved = desk.admit(agent, "enable", old).error.approval_id
    Approvals(desk.database).resolve(ann, approved, approved=True)
    desk.let_time_pass(desk.admit(agent, "enable", new).error.approval_id)

    again = desk.admit(agent, "enable", new)

    assert again.approval.detail["previous"]["digest"] == old.digest


def test_a_diff_that_is_handed_in_is_on_the_card(
    desk: Any, ann: Actor, agent: Actor, package: Package, subject_of: SubjectOf
) -> None:
    newer = CHANGES["one byte"][0](package)
    old, new = subject_of(package), subject_of(newer)
    Approvals(desk.database).resolve(ann, desk.admit(agent, "enable", old).error.approval_id, approved=True)
    with desk.database.read() as connection:
        before = find_last_approved(connection, agent, "enable", new)
        assert find_last_approved(connection, agent, "enable", old) is None
    assert before is not None
    assert before.digest == package.digest
    diff = "\n".join(change.text for change in diff_packages(package, newer))

    card = desk.admit(agent, "enable", new, diff=diff).approval.detail

    assert "+Locks!" in card["diff"]
    assert card["diff_cut"] is False


def test_another_skill_of_the_same_slug_neither_uses_nor_ends_an_approval(
    desk: Any, ann: Actor, agent: Actor, package: Package, subject_of: SubjectOf
) -> None:
    mine = subject_of(package)
    other = subject_of(CHANGES["one byte"][0](package), origin="github:globex/runbooks")
    Approvals(desk.database).resolve(ann, desk.admit(agent, "enable", mine).error.approval_id, approved=True)

    asked = desk.admit(agent, "enable", other)

    assert isinstance(asked.error, ApprovalRequired)
    assert "previous" not in asked.approval.detail
    assert desk.admit(agent, "enable", mine).allowed


def test_the_same_files_in_whatever_order_are_the_same_bytes(
    desk: Any, ann: Actor, agent: Actor, package: Package, subject_of: SubjectOf
) -> None:
    Approvals(desk.database).resolve(
        ann, desk.admit(agent, "enable", subject_of(package)).error.approval_id, approved=True
    )

    again = Package.of("triage", reversed(package.files))

    assert desk.admit(agent, "enable", subject_of(again)).allowed


def test_no_random_change_is_used_unapproved(
    desk: Any, ann: Actor, agent: Actor, package: Package, subject_of: SubjectOf
) -> None:
    yes = desk.admit(agent, "install", subject_of(package)).error.approval_id
    Approvals(desk.database).resolve(ann, yes, approved=True)

    @hypothesis_settings(max_examples=60)
    @given(st.sampled_from(package.paths), st.integers(0, 200), st.integers(1, 255), st.booleans())
    def unused(path: str, place: int, mask: int, insert: bool) -> None:
        def flip(content: bytes) -> bytes:
            at = place % len(content)
            return content[:at] + bytes([content[at] ^ mask]) + content[at + (0 if insert else 1) :]

        changed = subject_of(edited(package, path, flip))
        assert changed.digest != package.digest
        assert isinstance(desk.admit(agent, "install", changed).error, ApprovalRequired)

    unused()
    assert desk.admit(agent, "install", subject_of(package)).allowed
