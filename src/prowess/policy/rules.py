"""The rules: decide whether an action is allowed, needs approval or is denied. Pure; every input gets an answer.

The cheap checks come first: the actor's permission, then its role, then how far the skill is trusted and what the
organization's policy says about that, then what it hides and how far it reaches. Anything that no rule covers is denied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, cast

from prowess.lazy_dataclass import dataclass
from prowess.policy.actor import (
    ACTION_PERMISSIONS,
    ACTIONS,
    CONNECTOR_ACTIONS,
    PERSON_ACTIONS,
    USE_ACTIONS,
    WRITE_ACTIONS,
    Actor,
)
from prowess.policy.organization import ENABLEMENTS, Enablement, OrgPolicy
from prowess.policy.roles import Role
from prowess.policy.subject import Subject
from prowess.policy.text import clean_text

Answer = Literal["allow", "ask", "deny"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """An answer, the rule that gave it, the reason, and what to do about it."""

    answer: Answer
    rule: str
    reason: str
    hint: str = ""


def apply_rules(actor: Actor, action: str, subject: Subject | None, policy: OrgPolicy, role: Role | None) -> Ruling:
    """Decide about an action. `role` is the actor's role, or None. Never raises."""
    denied = _check_permission(actor, action) or _check_role(actor, action, subject, role)
    if denied:
        return denied
    if action in PERSON_ACTIONS:
        return _allow("permission", "Allowed: the actor has the permission.")
    if subject is None or not subject.is_complete:
        return _deny(
            "no-subject",
            "No skill was given, or its content is unknown.",
            "Pass the slug of a skill from `prowess list`.",
        )
    if action in CONNECTOR_ACTIONS:
        return _rule_connector(actor, action, subject)
    denied = _check_disabled(action, subject, policy) or _check_place(actor, action, subject)
    if denied:
        return denied
    ruling = _check_hides(action, subject, _rule_by_trust(actor, action, subject, policy))
    return _check_dangers(action, subject, _check_reach(action, subject, _check_uses(subject, ruling)))


def _check_permission(actor: Actor, action: str) -> Ruling | None:
    if action not in ACTIONS:
        return _deny("unknown-action", f"Unknown action {action[:40]!r}.", f"Use one of: {', '.join(ACTIONS)}.")
    if action in PERSON_ACTIONS and not actor.is_person:
        return _deny(
            "persons-only", f"Agents may not {action}.", "Ask the user to do this, and continue with something else."
        )
    if ACTION_PERMISSIONS[action] not in actor.permissions:
        return _deny(
            "permission",
            f"{actor.name} lacks the permission {ACTION_PERMISSIONS[action]}, which `{action}` requires.",
            f"Ask an administrator to grant {ACTION_PERMISSIONS[action]}.",
        )
    return None


def _check_role(actor: Actor, action: str, subject: Subject | None, role: Role | None) -> Ruling | None:
    if not actor.role and role is None:
        return None
    # Fail closed: an actor with a role is never judged without it, nor by another one.
    if role is None or role.name != actor.role:
        return _deny(
            "unknown-role",
            f"Unknown role {actor.role[:80]!r}.",
            "Run `prowess policy roles` to list the roles, or act without a role.",
        )
    if not role.may(action):
        used = _CONNECTOR_WORDS.get(action)
        what = f"use {used}" if used else f"{action.replace('_', ' ')} skills"
        return _deny(
            "role-action",
            f"The role {role.name!r} may not {what}.",
            "Use an actor with another role: `prowess policy roles` lists what each role may do.",
        )
    # Tags are those of skills; connectors have none.
    if subject is not None and action not in CONNECTOR_ACTIONS and not role.covers(subject.tags):
        return _deny(
            "role-tags",
            f"The role {role.name!r} may only use skills tagged {', '.join(role.skill_tags)}; {subject.slug!r} has none of these tags.",
            "Choose a skill with one of these tags, or use an actor with another role (`prowess policy roles`).",
        )
    return None


_CONNECTOR_WORDS = {
    "connect": "connectors",
    "read_tool": "tools of connectors",
    "call_tool": "tools of connectors that change something",
}


def _rule_connector(actor: Actor, action: str, subject: Subject) -> Ruling:
    """Ask before a connector that nobody has accepted is opened, and before an agent calls a tool that nobody allowed."""
    if subject.permitted:
        return _allow("connector-allowed", "Allowed: a person has allowed this.")
    if action == "connect":
        return _ask(
            "connector-found", "Approval required: nobody has accepted the configuration of this connector yet."
        )
    if actor.is_person:
        return _allow("person", "Allowed: a person calls the tool.")
    return _ask("connector-call", "Approval required: an agent wants to call a tool of a connector.")


def _check_disabled(action: str, subject: Subject, policy: OrgPolicy) -> Ruling | None:
    """Deny skills that administrators have disabled, for every actor."""
    # A disabled skill can still be repaired and deleted.
    if action not in USE_ACTIONS:
        return None
    disabled: object = policy.disabled_skills
    if not isinstance(disabled, list | tuple):
        return _deny(
            "setting-unreadable",
            "The setting disabled_skills is not a valid list, so every skill is disabled.",
            "Ask an administrator to run `prowess policy set disabled_skills '[]'` with a list of slugs.",
        )
    if subject.slug not in cast("Sequence[object]", disabled):
        return None
    return _deny(
        "disabled",
        f"The skill {subject.slug!r} is switched off for this organization.",
        f"Continue without it, or ask an administrator to switch it on: `prowess switch on {subject.slug}`.",
    )


def _check_place(actor: Actor, action: str, subject: Subject) -> Ruling | None:
    """Deny members of a server's organizations to change its folders, which belong to the operator and serve everyone."""
    if action not in WRITE_ACTIONS or not subject.folder or not actor.is_tenant:
        return None
    return _deny(
        "folder-of-the-server",
        f"The skill {subject.slug!r} is in a folder of the server, which only its operator can change.",
        "Create a skill with another slug, or ask the operator of the server.",
    )


def _check_hides(action: str, subject: Subject, ruling: Ruling) -> Ruling:
    """Ask before a skill is used instead of a trusted one of the same slug, even if a person uses it."""
    if action not in USE_ACTIONS or ruling.answer != "allow" or not subject.hides_trusted:
        return ruling
    scopes = ", ".join(subject.hides_trusted)
    return _ask(
        "hides-trusted",
        f"Approval required: this skill replaces a skill {subject.slug!r} that you trust ({scopes}).",
    )


def _check_uses(subject: Subject, ruling: Ruling) -> Ruling:
    """Ask before a run uses a prompt or rubric that was merely found, even if the skill itself is accepted."""
    if ruling.answer != "allow" or not subject.unaccepted:
        return ruling
    used = "; ".join(entry.description for entry in subject.unaccepted)
    return _ask("found-prompt", f"Approval required: this skill {used}, which you have not accepted yet.")


def _check_reach(action: str, subject: Subject, ruling: Ruling) -> Ruling:
    """Ask before a run that reaches too far beyond the sandbox, even if a person runs it."""
    if action != "run" or ruling.answer != "allow" or not subject.reach:
        return ruling
    # A reach that is not known counts as the farthest.
    if subject.reach != "outside":
        return _ask("reaches-machine", "Approval required: this skill runs as a process on this machine.")
    if subject.sends_out and not subject.may_send_out:
        return _ask(
            "can-send-out",
            "Approval required: this skill can read files, pages or environment variables and also contact hosts, so it"
            " could send your data to them.",
        )
    if subject.trust == "agent":
        return _ask(
            "agent-reaches-outside",
            "Approval required: an agent wrote this skill, and it reaches outside the sandbox.",
        )
    return ruling


def _check_dangers(action: str, subject: Subject, ruling: Ruling) -> Ruling:
    """Ask before using a skill in which the scan found a danger, even if a person wrote it here."""
    if action not in USE_ACTIONS or ruling.answer != "allow" or not subject.dangers:
        return ruling
    first = next(finding for finding in subject.findings if finding.get("severity") == "danger")
    what = clean_text(str(first.get("message", ""))).rstrip(".")
    where = f"{clean_text(str(first.get('path', '')))}:{first.get('line') or 1}"
    return _ask(
        "danger-found",
        f"Approval required: the security scan found a danger in {where}: {what}.",
    )


def _rule_by_trust(actor: Actor, action: str, subject: Subject, policy: OrgPolicy) -> Ruling:
    if action == "fetch_live" or subject.trust == "live":
        return _check_hosted(actor, subject, _rule_live(actor, policy))
    by_agent = not actor.is_person
    if subject.trust == "found" and (action in USE_ACTIONS or (action == "update" and by_agent)):
        return _rule_found(actor, action, policy)
    if action == "delete":
        return (
            _ask("agent-deletes", "Approval required: an agent wants to delete a skill.")
            if by_agent
            else _WRITE_ALLOWED
        )
    own = by_agent and subject.written_by == actor.label
    ruling = _rule_by_origin(actor, action, subject, policy, own=own)
    # Otherwise an agent could change the bytes of a skill that people trust because they wrote it.
    if action == "update" and by_agent and not own and ruling.answer == "allow":
        return _ask("agent-updates", "Approval required: an agent wants to change a skill that it did not write.")
    if action in WRITE_ACTIONS and by_agent and subject.drafted and ruling.answer == "allow":
        return _ask("draft", "Approval required: a model wrote this skill, and nobody has accepted it yet.")
    if action in USE_ACTIONS and by_agent and subject.people_only and ruling.answer == "allow":
        return _ask("people-only", "Approval required: only people start this skill, and an agent wants to use it.")
    if action == "run" and by_agent and subject.asks_first and ruling.answer == "allow":
        return _ask("skill-asks-first", "Approval required: this skill asks for approval before an agent runs it.")
    return ruling


def _rule_by_origin(actor: Actor, action: str, subject: Subject, policy: OrgPolicy, *, own: bool) -> Ruling:
    """Skills from elsewhere are subject to both policies, local ones to one.

    A person changes and deletes skills without being asked, wherever they came from.
    """
    if action in ("update", "delete") and actor.is_person:
        return _WRITE_ALLOWED
    if subject.trust == "synced":
        return _rule_by_settings(
            actor, policy, "skills from other sources", "skill_enablement_policy", "skill_synced_policy"
        )
    if action in WRITE_ACTIONS:
        return _WRITE_ALLOWED
    # Compared with True, so that an unreadable value counts as off.
    if subject.trust == "agent" and not own and policy.agent_skills_live_for_all is not True:
        what = "skills written by other agents"
        return _rule_by_settings(actor, policy, what, "skill_enablement_policy", "skill_synced_policy")
    return _rule_by_settings(actor, policy, "skills", "skill_enablement_policy")


def _rule_found(actor: Actor, action: str, policy: OrgPolicy) -> Ruling:
    """Ask about a skill that nobody has accepted, for every actor; under `admin-only`, only administrators are asked."""
    ruling = _rule_by_settings(actor, policy, "skills", "skill_enablement_policy")
    if ruling.answer == "deny":
        return ruling
    if action == "update":
        # The person who approves a change sees the difference; here that would be a difference to bytes nobody has seen.
        return _deny(
            "found",
            "Agents may only change skills that a person has accepted, and nobody has accepted this one yet.",
            "Ask the user to review it with `prowess trust`.",
        )
    return _ask("found", "Approval required: nobody has accepted this skill yet.")


def _rule_live(actor: Actor, policy: OrgPolicy) -> Ruling:
    # Compared with True, so that an unreadable value counts as off.
    if policy.skills_dynamic_search_enabled is not True:
        return _deny(
            "live-off",
            "Fetching skills live is turned off (skills_dynamic_search_enabled).",
            "Use an installed skill, or ask an administrator to run `prowess policy set skills_dynamic_search_enabled true`.",
        )
    return _rule_by_settings(actor, policy, "skills fetched live", "skills_dynamic_search_policy")


def _check_hosted(actor: Actor, subject: Subject, ruling: Ruling) -> Ruling:
    """Ask before an agent uses a skill that a connector serves, whatever the policy: its server chooses the instructions."""
    if ruling.answer != "allow" or actor.is_person or subject.source_type != "connector":
        return ruling
    return _ask("connector-skill", "Approval required: a connector serves this skill.")


def _rule_by_settings(actor: Actor, policy: OrgPolicy, what: str, *names: str) -> Ruling:
    """Return the ruling of the strictest of these settings."""
    values: dict[str, object] = {name: getattr(policy, name) for name in names}
    for name, value in values.items():
        if value not in ENABLEMENTS:
            return _deny(
                "setting-unreadable",
                f"The setting {name} has an unknown value, so it allows nothing.",
                f"Ask an administrator to run `prowess policy set {name}` with one of: {', '.join(ENABLEMENTS)}.",
            )
    # `ENABLEMENTS` is ordered from generous to strict.
    strictest = max(values, key=lambda name: ENABLEMENTS.index(cast("Enablement", values[name])))
    if values[strictest] == "auto":
        return _allow(strictest, f"Allowed: this organization's policy for {what} is `auto` ({strictest}).")
    if values[strictest] == "prompt-user":
        return _ask(
            strictest, f"Approval required: this organization's policy for {what} is `prompt-user` ({strictest})."
        )
    if actor.admin:
        return _allow(
            strictest, f"Allowed: {actor.name} is an administrator; the policy is `admin-only` ({strictest})."
        )
    return _deny(
        strictest,
        f"Only administrators may use {what}: this organization's policy is `admin-only` ({strictest}).",
        f"Ask an administrator to use the skill for you, or to run `prowess policy set {strictest} prompt-user`.",
    )


def _allow(rule: str, reason: str) -> Ruling:
    return Ruling(answer="allow", rule=rule, reason=reason)


def _ask(rule: str, reason: str) -> Ruling:
    hint = "Ask the user to answer the request (`prowess approvals`), and continue with something else until then."
    return Ruling(answer="ask", rule=rule, reason=reason, hint=hint)


def _deny(rule: str, reason: str, hint: str) -> Ruling:
    return Ruling(answer="deny", rule=rule, reason=reason, hint=hint)


_WRITE_ALLOWED = _allow("writing", "Allowed: the actor may change skills.")
