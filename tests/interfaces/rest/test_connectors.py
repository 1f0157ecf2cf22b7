"""Connectors over HTTP."""

from __future__ import annotations

from starlette.testclient import TestClient


def test_connectors_are_listed_by_name_in_pages(client: TestClient) -> None:
    for name in ("tracker", "docs", "wiki"):
        saved = client.put(f"/api/v1/connectors/{name}", json={"url": f"https://{name}.example.com/mcp"})
        assert saved.status_code == 200, saved.text

    first = client.get("/api/v1/connectors?limit=2").json()
    rest = client.get(f"/api/v1/connectors?cursor={first['next_cursor']}").json()

    assert [one["name"] for one in first["items"] + rest["items"]] == ["docs", "tracker", "wiki"]
    assert (first["total"], rest["next_cursor"]) == (3, None)
