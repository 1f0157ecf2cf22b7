"""The reference of the API in a browser."""

from __future__ import annotations

import html
import re
import shlex
from dataclasses import fields

import pytest

from prowess.engine.registry_results import RegistryHit


@pytest.fixture
def page(client):
    return html.unescape(client.get("/api/v1/docs", headers={"authorization": ""}).text)


def test_it_shows_every_route_with_its_permission_parameters_and_a_command(client, page):
    document = client.get("/api/v1/openapi.json").json()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            name = f"{method}-{path.strip('/')}".translate(str.maketrans({"/": "-", "{": None, "}": None}))
            section = page.partition(f'<details id="{name}"')[2].partition("</details>")[0]
            assert section, name
            for parameter in operation.get("parameters", ()):
                assert f"<code>{parameter['name']}</code>" in section
            for scopes in operation.get("security", ()):
                assert all(scope in section for scope in scopes.get("token", ()))
            command = re.search(r"<pre><code>(curl .*?)</code></pre>", section, re.DOTALL)[1]
            assert shlex.split(command)[0] == "curl"


def test_every_link_leads_to_something_on_the_page(page):
    targets = set(re.findall(r'id="([^"]+)"', page))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= targets


def test_no_schema_is_named_by_the_module_that_it_is_from(client):
    schemas = client.get("/api/v1/openapi.json").json()["components"]["schemas"]
    assert [name for name in schemas if "__" in name] == []


def test_the_reference_has_all_fields_of_a_value_that_inherits_some(client):
    shapes = client.get("/api/v1/openapi.json").json()["components"]["schemas"]
    hit = {field.name for field in fields(RegistryHit)}
    assert hit == set(shapes["RegistryHitShape"]["properties"])
