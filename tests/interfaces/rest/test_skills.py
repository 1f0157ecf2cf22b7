"""Skills over HTTP: created, listed, read, changed, switched off and deleted."""

from __future__ import annotations

import asyncio
from contextlib import closing
from threading import Barrier, Thread
from urllib.parse import quote

import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient

from prowess import Prowess
from prowess.interfaces.auth.caller import Caller
from prowess.interfaces.auth.guard import known_tokens
from prowess.interfaces.server import make_app
from prowess.policy.actor import Actor, agent_of
from prowess.settings import read_settings
from prowess.skill.draft import SkillDraft
from prowess.storage.database import open_database
from prowess.storage.tables import skills

SKILLS = "/api/v1/skills"
NOTES = "---\nname: Release notes\nslug: team.release-notes\ndescription: Writes release notes.\ntags: [writing]\n---\n\nBe brief.\n"


def create(client: TestClient, content: str = NOTES, **fields):
    answer = client.post(SKILLS, json={"content": content, **fields})
    assert answer.status_code == 201, answer.text
    return answer


def slugs(client: TestClient, **query) -> list[str]:
    return [item["slug"] for item in client.get(SKILLS, params=query).json()["items"]]


def test_a_created_skill_is_answered_with_its_location_and_entity_tag(client):
    made = create(client)
    skill = made.json()

    assert made.headers["location"] == f"{SKILLS}/{skill['id']}"
    assert made.headers["etag"] == f'"{skill["digest"]}"'
    assert (skill["slug"], skill["name"], skill["tags"]) == ("team.release-notes", "Release notes", ["writing"])
    assert client.get(made.headers["location"]).json() == skill


def test_a_document_without_changes_keeps_its_bytes(client):
    assert create(client).json()["content"] == NOTES


def test_the_fields_of_the_body_win_over_the_frontmatter_and_are_written_into_it(client):
    skill = create(client, name="Notes", description="Other.", tags=["a", "b"], version="2.0.0").json()

    assert (skill["name"], skill["description"], skill["tags"], skill["version"]) == (
        "Notes",
        "Other.",
        ["a", "b"],
        "2.0.0",
    )
    parsed = client.post(f"{SKILLS}/parse", json={"content": skill["content"]}).json()
    assert (parsed["name"], parsed["description"], parsed["tags"]) == ("Notes", "Other.", ["a", "b"])


@pytest.mark.parametrize("address", ["team.release-notes", "org:team.release-notes"])
def test_a_skill_is_found_by_its_id_its_slug_and_its_scope_with_slug(client, address):
    skill = create(client).json()

    assert client.get(f"{SKILLS}/{address}").json() == client.get(f"{SKILLS}/{skill['id']}").json()


def test_a_taken_slug_is_a_conflict_that_names_the_slug_and_the_organization(serve):
    client = serve(Actor(name="ann", organization="acme", user="ann", channel="http"))
    create(client)

    for content in (NOTES, NOTES + "More.\n"):
        answer = client.post(SKILLS, json={"content": content})
        assert (answer.status_code, answer.json()["code"]) == (409, "duplicate-skill")
        assert "'team.release-notes'" in answer.json()["detail"]
        assert "'acme'" in answer.json()["detail"]


def test_an_invalid_document_is_refused_with_every_problem(client):
    answer = client.post(SKILLS, json={"content": "---\n---\n", "slug": "empty"})

    assert answer.status_code == 422
    assert "description-missing" in [problem["code"] for problem in answer.json()["problems"]]
    assert client.post(SKILLS, json={"content": NOTES, "slug": "Not a slug"}).status_code == 422


def test_unknown_fields_are_refused_and_fields_of_the_server_are_ignored(client):
    skill = create(client, id="mine", digest="0" * 64, organization_id="other", created_at="never").json()

    assert skill["id"] != "mine"
    assert skill["organization_id"] is None
    assert client.post(SKILLS, json={"content": NOTES, "slgu": "x"}).status_code == 422


def test_a_put_changes_the_given_fields_and_keeps_the_others(client):
    before = create(client).json()
    after = client.put(f"{SKILLS}/{before['id']}", json={"description": "Writes better notes."}).json()

    assert after["description"] == "Writes better notes."
    assert (after["name"], after["tags"], after["id"]) == (before["name"], before["tags"], before["id"])
    assert after["digest"] != before["digest"]
    assert "Be brief." in after["content"]


def test_a_put_changes_only_the_lines_of_the_given_fields(client):
    text = NOTES.replace("tags: [writing]\n", "# Ask Ann before you change the tags.\ntags: [writing]\nteam: web\n")
    place = create(client, text).headers["location"]

    after = client.put(place, json={"description": "Writes notes.", "author": "Ann"}).json()["content"]

    assert after == text.replace("Writes release notes.", "Writes notes.").replace(
        "team: web\n", "team: web\nauthor: Ann\n"
    )


def test_a_put_with_a_document_stores_exactly_that_document(client):
    skill = create(client).json()
    text = NOTES.replace("Be brief.", "Be very brief.")

    assert client.put(f"{SKILLS}/{skill['slug']}", json={"content": text}).json()["content"] == text


def test_a_skill_can_be_sent_back_as_it_was_read(client):
    skill = create(client).json()
    answer = client.put(f"{SKILLS}/{skill['id']}", json=skill)

    assert (answer.status_code, answer.json()) == (200, skill)


def test_slug_and_scope_never_change(client):
    skill = create(client).json()

    assert client.put(f"{SKILLS}/{skill['id']}", json={"slug": "other"}).status_code == 422
    assert client.put(f"{SKILLS}/{skill['id']}", json={"scope": "user"}).status_code == 422
    renamed = NOTES.replace("team.release-notes", "team.other")
    assert client.put(f"{SKILLS}/{skill['id']}", json={"content": renamed}).status_code == 422
    assert client.get(f"{SKILLS}/{skill['id']}").json() == skill


@pytest.mark.parametrize(
    "content",
    ["Plain text.", "# A heading\n\nText.\n", "---\nname: Release Notes, Better\ndescription: Writes.\n---\nText.\n"],
)
def test_a_document_that_says_no_slug_keeps_that_of_the_skill(client, content):
    fields = {"slug": "team.notes", "name": "Notes", "description": "Writes notes.", "content": "Plain text."}
    made = client.post(SKILLS, json=fields).json()
    changed = client.put(f"{SKILLS}/{made['id']}", json={"content": content + "\nMore."})
    assert (changed.status_code, changed.json()["slug"], changed.json()["id"]) == (200, "team.notes", made["id"])
    assert "More." in client.get(f"{SKILLS}/team.notes").json()["content"]
    other = client.put(f"{SKILLS}/{made['id']}", json={"content": "---\nname: other\ndescription: x\n---\nText."})
    assert (other.status_code, "slug never changes" in other.json()["detail"]) == (422, True)


def test_a_known_entity_tag_is_answered_without_a_body(client):
    made = create(client)
    answer = client.get(made.headers["location"], headers={"if-none-match": made.headers["etag"]})

    assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", made.headers["etag"])


def test_a_stale_write_gets_412_with_the_current_version_and_changes_nothing(client):
    made = create(client)
    place, old = made.headers["location"], {"if-match": made.headers["etag"]}
    changed = client.put(place, json={"tags": ["x"]}, headers=old)
    assert changed.status_code == 200

    for answer in (client.put(place, json={"tags": ["y"]}, headers=old), client.delete(place, headers=old)):
        assert answer.status_code == 412
        assert answer.headers["etag"] == answer.json()["etag"] == changed.headers["etag"]
        assert answer.json()["version"] == 2
    assert client.get(place).json()["tags"] == ["x"]


@pytest.mark.parametrize("tag", ["*", "its own"])
def test_a_change_of_only_what_does_not_exist_changes_nothing_that_does(client, tag):
    made = create(client)
    place = f"{SKILLS}/{made.json()['slug']}"
    nothing = {"if-none-match": made.headers["etag"] if tag == "its own" else tag}
    for answer in (
        client.put(place, json={"tags": ["x"]}, headers=nothing),
        client.delete(place, headers=nothing),
        client.post(f"{place}/rollback", json={"version": 1}, headers=nothing),
    ):
        assert (answer.status_code, answer.headers["etag"]) == (412, made.headers["etag"])
    assert client.put(place, json={"tags": ["x"]}, headers={"if-none-match": '"another"'}).status_code == 200
    client.delete(place)
    restored = client.post(f"{place}/rollback", json={"version": 1}, headers={"if-none-match": "*"})
    assert restored.status_code == 200


def test_a_deleted_skill_is_gone_and_its_slug_is_free(client):
    made = create(client)

    assert client.delete(made.headers["location"]).status_code == 204
    assert client.get(made.headers["location"]).status_code == 404
    assert client.delete(made.headers["location"]).status_code == 404
    create(client)


def test_the_stored_copy_of_a_skill_is_deleted_alone(client, tmp_path):
    document = "---\nname: notes\ndescription: Writes release notes.\n---\n\n"
    folder = tmp_path / "work/.agents/skills/notes"
    stored = create(client, f"{document}From the database.\n")
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(f"{document}From the folder.\n")
    skill, only = f"{SKILLS}/notes", {"stored": True}

    assert client.delete(skill, params=only, headers={"if-match": stored.headers["etag"]}).status_code == 422
    assert client.delete(skill, params=only).status_code == 204
    assert "From the folder." in client.get(skill).json()["content"]
    assert client.get(stored.headers["location"]).status_code == 404
    assert client.delete(skill, params=only).status_code == 404
    assert (folder / "SKILL.md").exists()


def test_a_list_has_pages_that_join_to_the_whole(client):
    for number in range(7):
        create(client, slug=f"n-{number}")

    found: list[str] = []
    cursor = ""
    while cursor is not None:
        page = client.get(SKILLS, params={"scope": "org", "limit": 3, "cursor": cursor}).json()
        assert page["total"] == 7
        assert all("content" not in item for item in page["items"])
        found += [item["slug"] for item in page["items"]]
        cursor = page["next_cursor"]
    assert found == [f"n-{number}" for number in range(7)]
    assert client.get(SKILLS, params={"cursor": "nonsense"}).status_code == 422


def test_a_list_is_filtered_by_words_tags_scope_and_source(client):
    create(client, slug="one", tags=["a", "b"], description="Alpha beta.")
    create(client, slug="two", tags=["b"], description="Beta gamma.", source_id="runbooks")
    create(client, slug="three", scope="user", tags=["b"])

    assert slugs(client, scope="org") == ["one", "two"]
    assert slugs(client, scope="user") == ["three"]
    assert slugs(client, q="BETA", scope="org") == ["one", "two"]
    assert slugs(client, q="beta gamma") == ["two"]
    assert slugs(client, tags="a,b") == slugs(client, tags=["a", "b"]) == slugs(client, tags="A,B") == ["one"]
    assert slugs(client, source_id="runbooks") == ["two"]
    assert client.get(SKILLS, params={"scope": "galaxy"}).status_code == 422


def test_a_list_sees_every_write_at_once(client):
    assert slugs(client, scope="org") == []
    skill = create(client).json()
    assert slugs(client, scope="org") == ["team.release-notes"]
    client.put(f"{SKILLS}/{skill['id']}", json={"name": "Other"})
    assert [item["name"] for item in client.get(SKILLS, params={"scope": "org"}).json()["items"]] == ["Other"]
    client.delete(f"{SKILLS}/{skill['id']}")
    assert slugs(client, scope="org") == []


def test_a_list_and_a_skill_say_what_another_process_has_written(each_place):
    environment = {**each_place.environment, "PROWESS_SKILL_FOLDERS": "off"}
    me = Actor(name="me", channel="http")
    ours, other = (Prowess.open(settings=read_settings(environment), actor=me) for _ in range(2))
    app = make_app(ours, callers=known_tokens({"t": Caller(actor=me)}), keys=[b"k" * 32], hosts=("testserver",))
    with TestClient(app, headers={"authorization": "Bearer t"}) as client:

        def state() -> list[tuple[str, bool, str]]:
            rows = client.get(SKILLS, params={"scope": "org"}).json()["items"]
            for row in rows:
                assert {**client.get(f"{SKILLS}/{row['slug']}").json(), **row}["content"]
            return [(row["description"], row["enabled"], row["trust"]) for row in rows]

        assert state() == []
        asyncio.run(other.skills.create_document(SkillDraft(content=NOTES)))
        assert state() == state() == [("Writes release notes.", True, "local")]
        asyncio.run(other.skills.update_document("team.release-notes", SkillDraft(description="New.")))
        assert state() == state() == [("New.", True, "local")]
        asyncio.run(other.policy.switch("team.release-notes", on=False))
        assert state() == state() == [("New.", False, "local")]
        asyncio.run(other.skills.delete("team.release-notes"))
        assert state() == []
    asyncio.run(other.close())
    asyncio.run(ours.close())


def test_a_skill_that_is_switched_off_stays_listed_for_people_and_is_used_by_nobody(client, serve):
    place = create(client).headers["location"]
    agent = serve(agent_of(Actor(name="me", channel="http")))
    assert agent.get(place).status_code == 200

    off = client.put(place, json={"enabled": False})

    assert (off.status_code, off.json()["enabled"]) == (200, False)
    assert slugs(client, enabled="false") == ["team.release-notes"]
    assert "team.release-notes" not in slugs(client, enabled="true")
    assert agent.get(place).status_code == 404
    assert slugs(agent, scope="org") == []
    assert client.put(place, json={"enabled": True}).json()["enabled"] is True
    assert agent.get(place).status_code == 200


def test_the_column_of_the_table_says_what_the_answer_says(each_client, each_place):
    def column() -> list[bool]:
        settings = read_settings(each_place.environment)
        with closing(open_database(settings.account_database)) as database, database.read() as connection:
            return list(connection.execute(sa.select(skills.c.enabled).order_by(skills.c.slug)).scalars())

    place = create(each_client).headers["location"]
    create(each_client, slug="zebra")
    assert each_client.put(place, json={"enabled": False}).json()["enabled"] is False
    assert column() == [False, True]

    each_client.delete(place)
    assert create(each_client).json()["enabled"] is False
    assert column() == [False, True]
    assert each_client.put(f"{SKILLS}/team.release-notes", json={"enabled": True}).json()["enabled"] is True
    assert column() == [True, True]


def test_only_an_administrator_switches_a_skill_off(client, serve):
    place = create(client).headers["location"]
    writer = serve(Actor(name="bob", permissions=frozenset({"skills.read", "skills.write"}), channel="http"))

    assert writer.put(place, json={"enabled": True, "tags": ["x"]}).status_code == 200
    assert writer.put(place, json={"enabled": False, "tags": ["y"]}).status_code == 403
    assert client.get(place).json()["tags"] == ["x"]


def test_a_reader_changes_nothing(client, serve):
    place = create(client).headers["location"]
    reader = serve(Actor(name="bob", permissions=frozenset({"skills.read"}), channel="http"))

    assert reader.get(place).status_code == 200
    assert reader.put(place, json={"tags": []}).status_code == 403
    assert reader.delete(place).status_code == 403
    assert reader.post(SKILLS, json={"content": NOTES}).status_code == 403


def test_parsing_reports_every_problem_with_its_line_and_stores_nothing(client):
    draft = client.post(f"{SKILLS}/parse", json={"content": "---\nname: Big Report\ntags: [x\n---\n\n# Hello\n"}).json()

    assert (draft["slug"], draft["name"], draft["tags"]) == ("big-report", "Big Report", ["x"])
    assert draft["body"].strip() == "# Hello"
    assert draft["content_length"] > 0
    assert ("unclosed-bracket", 3) in [(problem["code"], problem["line"]) for problem in draft["problems"]]
    assert slugs(client, scope="org") == []


def test_an_unknown_id_is_answered_like_an_unknown_slug(client):
    unknown = "3f2b8c1e-0000-4000-8000-000000000000"
    answers = [client.get(f"{SKILLS}/{name}").text.replace(name, "") for name in (unknown, "nothing")]

    assert answers[0] == answers[1]


@pytest.mark.parametrize("condition", [True, False])
def test_of_many_writers_with_the_same_entity_tag_exactly_one_wins(each_client, condition):
    made = create(each_client)
    headers = {"if-match": made.headers["etag"]} if condition else {}
    ready, statuses = Barrier(8), list[int]()

    def write(number: int) -> None:
        ready.wait()
        answer = each_client.put(made.headers["location"], json={"description": f"Writer {number}."}, headers=headers)
        statuses.append(answer.status_code)

    threads = [Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    if condition:
        assert sorted(statuses) == [200] + [412] * 7
    else:
        assert set(statuses) <= {200, 409}
        versions = each_client.get(f"{made.headers['location']}/versions").json()
        assert versions["total"] == 1 + statuses.count(200)


def test_no_text_makes_the_server_fail(each_client):
    place = create(each_client).headers["location"]
    strange = "\x00\ud7ff\U0010ffff\u202e"

    answers = [
        each_client.put(place, json={"description": strange, "author": strange, "source_ref": strange}),
        each_client.put(place, json={"content": NOTES + strange, "tags": [strange]}),
        each_client.post(SKILLS, json={"content": strange}),
        each_client.post(f"{SKILLS}/parse", json={"content": strange}),
        each_client.post(f"{place}/rollback", json={"version": 1, "note": strange}),
        each_client.get(SKILLS, params={"q": strange, "tags": strange, "source_id": strange}),
        each_client.get(f"{SKILLS}/{quote(strange)}"),
        each_client.get(f"{place}/files/{quote(strange)}"),
        each_client.delete(place, params={"note": strange}),
    ]

    assert all(answer.status_code < 500 for answer in answers), [answer.status_code for answer in answers]
