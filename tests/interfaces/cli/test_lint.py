"""`prowess lint`: find skills that compete for the same messages."""

from __future__ import annotations

from prowess.engine.places import PACKS

TWIN = (
    "---\nname: {name}\ndescription: Reads invoices in PDF and extracts totals, VAT and due dates. Use when someone sends "
    "an invoice{more}.\n---\n\n# {name}\n\nDo it.\n"
)


def test_skills_of_different_things_are_in_order(prowess, office):
    ran = prowess("lint")
    assert ran.code == 0, ran.out
    assert "5 skills compared: none compete" in ran.out
    assert prowess("lint", "--collisions", "--json").json == {"ok": True, "skills": 5, "collisions": []}


def test_skills_that_compete_are_named_with_what_to_do(prowess, office, write_skill):
    write_skill("bill-scanner", TWIN.format(name="bill-scanner", more=" or a receipt from Portugal"))
    ran = prowess("lint", "--collisions")
    assert ran.code == 1
    assert "bill-scanner and invoice-reader" in ran.out
    assert "Both match:" in ran.out
    assert "(use bill-scanner)" in ran.out
    told = prowess("lint", "--json").json
    assert told["ok"] is False
    [pair] = told["collisions"]
    assert pair["slugs"] == ["bill-scanner", "invoice-reader"]
    assert 0.75 <= pair["similarity"] <= 1
    assert "portugal" in " ".join(pair["advice"]).lower()


def test_a_skill_does_not_compete_with_a_role_pack_which_is_never_matched(prowess, office, write_skill, monkeypatch):
    monkeypatch.setenv("PROWESS_SYSTEM_SKILLS", "on")
    text = (PACKS / "reviewer" / "SKILL.md").read_text()
    write_skill("code-check", text.replace("name: reviewer", "name: code-check"))
    report = prowess("lint", "--json").json
    assert report["skills"] == 6
    assert not [found for found in report["collisions"] if "reviewer" in found["slugs"]]


def test_only_the_skills_that_were_named_are_looked_at(prowess, office, write_skill):
    write_skill("bill-scanner", TWIN.format(name="bill-scanner", more=""))
    assert prowess("lint", "sql-tuner").code == 0
    assert prowess("lint", "bill-scanner").code == 1
    assert prowess("lint", "nothing-like-it").code == 4


def test_a_skill_can_be_compared_before_it_is_kept(prowess, office, tmp_path):
    folder = tmp_path / "bill-scanner"
    folder.mkdir()
    (folder / "SKILL.md").write_text(TWIN.format(name="bill-scanner", more=""))
    ran = prowess("lint", folder, "--json")
    assert ran.code == 1
    assert ran.json["collisions"][0]["slugs"] == ["bill-scanner", "invoice-reader"]
    assert prowess("lint").code == 0


def test_the_threshold_is_a_share(prowess, office):
    assert prowess("lint", "--min", "0").code in (0, 1)
    assert prowess("lint", "--min", "2").code == 2
    assert prowess("lint", "--min", "nan").code == 2


def test_a_place_without_skills_is_in_order(prowess, workspace):
    assert prowess("lint").code == 0
