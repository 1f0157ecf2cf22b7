"""No source leads inside: not by its URL, not by a redirect, not by a link in an index, not by a name that changes its address."""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from prowess.errors import Invalid, ProwessError, Refused
from prowess.net.addresses import Address
from prowess.net.client import GuardedHttpClient
from prowess.sources.fetch import fetch
from prowess.sources.fetch_context import FetchContext
from prowess.sources.fetched import Fetched
from prowess.sources.reference import SourceReference

from .faults import FaultSite, fault_site

PUBLIC = "93.184.216.34"
INSIDE = [
    "127.0.0.0/8",
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "169.254.0.0/16",
    "100.64.0.0/10",
    "0.0.0.0/8",
]
INSIDE += ["224.0.0.0/4", "240.0.0.0/4", "192.0.0.0/24", "168.63.129.16/32"]
INSIDE_6 = ["::1/128", "::/128", "fc00::/7", "fe80::/10", "ff00::/8", "::ffff:0:0/96", "64:ff9b::/96", "2002::/16"]
inside = st.sampled_from(INSIDE).flatmap(lambda network: st.ip_addresses(network=network))
inside_6 = st.sampled_from(INSIDE_6).flatmap(lambda network: st.ip_addresses(network=network))


@dataclass
class Network:
    """Names with scripted addresses, lookup by lookup, and a record of all connections. Only the site answers."""

    site: FaultSite
    names: dict[str, list[list[str]]] = field(default_factory=dict)
    looked_up: list[str] = field(default_factory=list)
    connected: list[str] = field(default_factory=list)

    async def addresses(self, host: str, port: int) -> tuple[Address, ...]:  # noqa: ARG002
        self.looked_up.append(host)
        answers = self.names[host]
        return tuple(map(ipaddress.ip_address, answers.pop(0) if len(answers) > 1 else answers[0]))

    def connect(self, address: Address, port: int, seconds: float) -> socket.socket:
        if port != self.site.port:
            self.connected.append(str(address))
            raise ConnectionRefusedError
        return socket.create_connection((str(address), port), timeout=seconds)

    def is_own(self, address: Address) -> bool:  # noqa: ARG002
        return False

    def fetch(self, url: str, kind="file") -> Fetched:
        client = GuardedHttpClient(resolver=self, connector=self, at_once=2)
        context = FetchContext(client=client, cache=Path("unused"), routes=self.site.routes, seconds=20)
        try:
            return asyncio.run(fetch(SourceReference(kind=kind, url=url), context))
        finally:
            client.close()


@pytest.fixture(scope="module")
def site() -> Iterator[FaultSite]:
    with fault_site() as made:
        yield made


def spellings(address: Address) -> list[str]:
    """Return every way in which some program reads an address as this one."""
    if isinstance(address, ipaddress.IPv6Address):
        return [f"[{address}]", f"[{address.exploded}]", f"[{address}%25lo]", f"[{address}%eth0]", str(address)]
    number, parts = int(address), [int(part) for part in str(address).split(".")]
    return [
        str(address),
        f"{address}.",
        str(number),
        hex(number),
        f"0{number:o}",
        ".".join(f"0{part:o}" for part in parts),
        ".".join(hex(part) for part in parts),
        f"{parts[0]}.{number & 0xFFFFFF}",
        f"{parts[0]}.{parts[1]}.{number & 0xFFFF}",
        f"[::ffff:{address}]",
        f"[::{address}]",
        f"[64:ff9b::{address}]",
        f"[2002:{number >> 16:x}:{number & 0xFFFF:x}::1]",
        f"{PUBLIC}@{address}",
        f"user:word@{address}",
        str(address).replace(".", "%2e"),
        str(address).replace(".", "。"),
        str(address).translate({ord(str(digit)): ord("０") + digit for digit in range(10)}),
        f"{address}\\@{PUBLIC}",
        f"{address}\t",
    ]


@given(address=inside | inside_6, scheme=st.sampled_from(["https", "http", "HTTPS"]), data=st.data())
@example(address=ipaddress.ip_address("169.254.169.254"), scheme="https", data=None)
def test_a_url_that_names_a_private_address_in_any_notation_connects_to_nothing(site, address, scheme, data):
    network = Network(site)
    forms = spellings(address)
    for form in forms if data is None else [data.draw(st.sampled_from(forms))]:
        for kind in ("file", "well-known"):
            with pytest.raises((Refused, Invalid)) as caught:
                network.fetch(f"{scheme}://{form}/SKILL.md", kind)
            assert caught.value.message
    assert network.connected == []


@given(address=inside | inside_6, status=st.sampled_from([301, 302, 303, 307, 308]), data=st.data())
def test_a_redirect_to_a_private_address_in_any_notation_connects_to_nothing(site, address, status, data):
    form = data.draw(st.sampled_from([form for form in spellings(address) if form.isascii() and form.isprintable()]))
    target = data.draw(st.sampled_from([f"https://{form}/x", f"http://{form}/x", f"//{form}/x", f"https:\\\\{form}"]))
    network = Network(site)
    site.redirects = {"/SKILL.md": (status, target)}
    with pytest.raises(ProwessError):
        network.fetch(f"{site.url}/SKILL.md")
    assert network.connected == []


@given(address=inside | inside_6, data=st.data())
def test_an_index_with_links_to_private_addresses_connects_to_nothing(site, address, data):
    form = data.draw(st.sampled_from(spellings(address)))
    row = {"name": "a", "type": "skill-md", "description": "A.", "digest": f"sha256:{hashlib.sha256(b'').hexdigest()}"}
    schema = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
    index = {"$schema": schema, "skills": [{**row, "url": f"https://{form}/SKILL.md"}]}
    site.files["/.well-known/agent-skills/index.json"] = json.dumps(index).encode()
    network = Network(site)
    got = network.fetch(site.url, "well-known")
    assert len(got.unreadable) == 1
    assert network.connected == []


@given(answers=st.lists(st.lists(inside | inside_6 | st.just(ipaddress.ip_address(PUBLIC)), min_size=1), min_size=1))
@example(answers=[[ipaddress.ip_address(PUBLIC)], [ipaddress.ip_address("127.0.0.1")]])
@example(answers=[[ipaddress.ip_address(PUBLIC), ipaddress.ip_address("10.0.0.1")]])
def test_a_name_that_changes_its_address_is_connected_to_at_the_one_that_was_checked(site, answers):
    network = Network(site, names={"rebind.example.com": [[str(one) for one in lookup] for lookup in answers]})
    with pytest.raises(ProwessError):
        network.fetch("https://rebind.example.com/SKILL.md")
    # One lookup for the check and the connection; with one private address among the public ones, there is no connection.
    assert network.looked_up == ["rebind.example.com"]
    assert set(network.connected) <= {PUBLIC}
    assert not network.connected or {str(one) for one in answers[0]} == {PUBLIC}


def test_each_hop_is_looked_up_and_checked_by_itself(site):
    network = Network(site, names={"inside.example.com": [["10.1.2.3"]], "outside.example.com": [[PUBLIC]]})
    site.redirects = {"/a": (302, "https://inside.example.com/x"), "/b": (302, "https://outside.example.com/x")}
    with pytest.raises(Refused, match="not public"):
        network.fetch(f"{site.url}/a")
    assert network.connected == []
    with pytest.raises(ProwessError):
        network.fetch(f"{site.url}/b")
    assert (network.looked_up, network.connected) == (["inside.example.com", "outside.example.com"], [PUBLIC])


@pytest.mark.parametrize(
    "target",
    ["file:///etc/passwd", "gopher://127.0.0.1:70/x", "ftp://example.com/x", "data:text/plain,x", "javascript:x"],
)
def test_a_redirect_to_another_scheme_is_not_followed(site, target):
    network = Network(site)
    site.redirects = {"/SKILL.md": (302, target)}
    with pytest.raises(ProwessError):
        network.fetch(f"{site.url}/SKILL.md")
    assert network.connected == []
