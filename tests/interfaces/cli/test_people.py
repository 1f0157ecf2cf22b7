"""`prowess org`, `prowess user` and `prowess token`, on the database of this machine."""

from __future__ import annotations

import os
import re

import pytest

READ_AND_RUN = "skills.read,skills.run"


@pytest.fixture
def acme(prowess, workspace):
    assert prowess("org", "create", "acme", "--name", "Acme Inc").code == 0
    assert prowess("user", "add", "ann", "--org", "acme", "--admin").code == 0
    return workspace


def test_without_organizations_the_lists_say_what_to_do_and_write_nothing(prowess, workspace, home):
    assert prowess("org").out == "No organizations. Create one: prowess org create ID\n"
    assert prowess("token").out == "No tokens. Create one: prowess token create\n"
    assert prowess("token", "list", "--json").json == []
    assert not (home / ".prowess" / "agents.db").exists()


def test_an_organization_with_its_first_admin(prowess, acme):
    shown = prowess("org", "show", "acme", "--json").json

    assert (shown["id"], shown["name"], shown["deactivated_at"]) == ("acme", "Acme Inc", None)
    assert [(one["user_id"], one["role"]) for one in shown["members"]] == [("ann", "admin")]
    assert "ann" in prowess("org", "show", "acme").out
    assert "acme" in prowess("org", "list").out
    assert prowess("org", "create", "acme").code != 0
    assert "Choose another id" in prowess("org", "create", "acme").err


def test_users_are_added_changed_shown_and_removed(prowess, acme):
    added = prowess("user", "add", "bob", "--org", "acme", "--permissions", READ_AND_RUN)
    changed = prowess("user", "change", "bob", "--org", "acme", "--permissions", "skills.read", "--json")

    assert added.out == "Added bob to acme with skills.read, skills.run.\n"
    assert "prowess token create --org acme --user bob" in added.err
    assert changed.json["permissions"] == ["skills.read"]
    assert "Nothing to change" in prowess("user", "change", "bob", "--org", "acme").err
    assert prowess("user", "show", "bob", "--org", "acme", "--json").json["permissions"] == ["skills.read"]
    assert "prowess user change bob --org acme" in prowess("user", "add", "bob", "--org", "acme").err
    assert "member of acme, active" in prowess("user", "show", "bob", "--org", "acme").out
    assert "Removed bob from acme" in prowess("user", "remove", "bob", "--org", "acme").out
    assert [one["user_id"] for one in prowess("user", "list", "--org", "acme", "--json").json] == ["ann", "bob"]
    assert "last admin" in prowess("user", "remove", "ann", "--org", "acme").err
    assert "--org" in prowess("user", "list").err
    assert "--org ID, or --everywhere" in prowess("user", "remove", "bob").err


def test_a_token_is_printed_once(prowess, acme):
    made = prowess("token", "create", "ci", "--org", "acme", "--user", "ann", "--scopes", READ_AND_RUN)
    listed = prowess("token", "list", "--org", "acme", "--json").json

    assert made.out.startswith("prw_")
    assert len(made.out.splitlines()) == 1
    assert "with skills.read, skills.run" in made.err
    assert [(one["name"], one["scopes"], one["state"]) for one in listed] == [
        ("ci", ["skills.read", "skills.run"], "active")
    ]
    assert made.out.strip() not in prowess("token", "list").out
    assert "ann@acme" in prowess("token").out


def test_a_token_that_can_approve_needs_a_person(prowess, acme, monkeypatch, request):
    monkeypatch.delenv("PROWESS_APPROVER_TOKEN", raising=False)
    for scopes in ((), ("--scopes", "admin"), ("--scopes", "skills.read,approvals.resolve")):
        refused = prowess("token", "create", "--org", "acme", "--user", "ann", *scopes)
        assert "Only a person can create a token that can approve" in refused.err
        assert "add `--scopes skills.read,skills.run`" in refused.err

    request.getfixturevalue("approver")
    made = prowess("token", "create", "--org", "acme", "--user", "ann", "--json").json

    assert "approvals.resolve" in made["scopes"]


def test_an_agents_token_needs_no_person_and_never_approves(prowess, acme):
    made = prowess("token", "create", "--org", "acme", "--user", "ann", "--for-agent", "builder", "--json").json
    refused = prowess(
        "token", "create", "--org", "acme", "--user", "ann", "--for-agent", "builder", "--scopes", "approvals.resolve"
    )

    assert (made["kind"], made["name"]) == ("agent", "builder")
    assert made["scopes"] == ["skills.read", "skills.run", "skills.write"]
    assert "token for an agent cannot have approvals.resolve" in refused.err


def test_a_token_lives_as_long_as_it_was_created_for(prowess, workspace):
    def made(period):
        return prowess("token", "create", "--scopes", "skills.read", "--expires", period, "--json")

    assert made("never").json["expires_at"] is None
    assert made("30d").json["expires_at"] > made("12h").json["expires_at"]
    assert "Invalid period 'soon'" in made("soon").err


def test_a_token_is_revoked_by_the_beginning_of_its_id(prowess, workspace):
    made = prowess("token", "create", "ci", "--scopes", "skills.read", "--json").json

    assert prowess("token", "revoke", made["id"][:6]).out.startswith("Revoked ci.")
    assert prowess("token", "revoke", made["id"]).code != 0
    assert "No token" in prowess("token", "revoke", "0000").err
    assert [one["state"] for one in prowess("token", "list", "--json").json] == ["revoked"]


def test_deactivating_needs_confirmation(prowess, acme):
    assert "Add --yes" in prowess("org", "deactivate", "acme").err
    prowess("user", "add", "bob", "--org", "acme")
    assert "Add --yes" in prowess("user", "remove", "bob", "--everywhere").err

    ended = prowess("user", "remove", "bob", "--everywhere", "--yes", "--json").json
    done = prowess("org", "deactivate", "acme", "--yes", "--json").json

    assert ended == {"user_id": "bob", "organizations": ["acme"]}
    assert done["deactivated_at"] is not None
    assert "deactivated" in prowess("user", "add", "eve", "--org", "acme").err


def test_an_account_at_a_provider_is_bound_by_its_subject(prowess, acme, monkeypatch):
    assert "PROWESS_OIDC_ISSUER" in prowess("user", "add", "bob", "--org", "acme", "--subject", "42").err

    monkeypatch.setitem(os.environ, "PROWESS_OIDC_ISSUER", "https://id.example.com")
    assert prowess("user", "add", "bob", "--org", "acme", "--subject", "42").code == 0
    assert "already linked to a user" in prowess("user", "change", "ann", "--org", "acme", "--subject", "42").err


def test_a_link_signs_a_user_in(prowess, acme, request, monkeypatch):
    assert "Only a person can sign a user in" in prowess("user", "sign-in", "ann", "--org", "acme").err

    request.getfixturevalue("approver")
    made = prowess("user", "sign-in", "ann", "--org", "acme", "--url", "https://prowess.example.com/")
    monkeypatch.setitem(os.environ, "PROWESS_PUBLIC_URL", "https://skills.example.com")
    other = prowess("user", "sign-in", "ann", "--org", "acme", "--json").json["link"]

    assert re.fullmatch(r"https://prowess\.example\.com/sign-in#[\w-]{43}\n", made.out)
    assert other.startswith("https://skills.example.com/sign-in#")
    unknown = prowess("user", "sign-in", "bob", "--org", "acme").err
    assert "No user 'bob'" in unknown
    assert "`prowess user list --org ID`" in unknown
