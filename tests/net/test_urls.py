"""What a URL may be, and which addresses may be asked: every case with a scripted name server and a counted connector."""

from __future__ import annotations

import asyncio
import socket
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.errors import Invalid, ProwessError, Refused
from prowess.net.addresses import non_public_reason
from prowess.net.client import GuardedHttpClient
from prowess.net.request import HttpRequest
from prowess.net.target import is_host_listed, parse_route, parse_target, redirect_target

PUBLIC = "93.184.216.34"

NOT_PUBLIC = [
    *("0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.8.8.8"),
    *("168.63.129.16", "169.254.169.254", "169.254.170.2", "172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.0.192"),
    *("192.0.2.1", "192.88.99.1", "192.168.1.1", "192.175.48.6", "198.18.0.1", "198.51.100.7", "203.0.113.9"),
    *("224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255"),
    *("::", "::1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::808:808"),
    *("64:ff9b:1::1", "100::1", "2001::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:db8::1", "2002:7f00:1::"),
    *("2002:808:808::1", "3fff::1", "3ffe::1", "4000::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1"),
    *("fe80::1%eth0", "fec0::1", "ff02::1"),
]
ARE_PUBLIC = [
    *("1.1.1.1", "8.8.8.8", PUBLIC, "172.15.0.1", "172.32.0.1", "192.0.1.1", "198.20.0.1", "223.255.255.255"),
    *("2606:4700::6810:84e5", "2a00:1450:4001:82a::200e", "2001:4860:4860::8888", "2400:cb00::1"),
]


class Counted:
    """A name server for which every name has the given addresses, and a connector that connects to nobody."""

    def __init__(self, *addresses: str) -> None:
        self.given = tuple(map(ip_address, addresses))
        self.connected: list[str] = []

    async def addresses(self, host: str, port: int):  # noqa: ARG002
        return self.given

    def connect(self, address, port: int, seconds: float):  # noqa: ARG002
        self.connected.append(str(address))
        raise ConnectionRefusedError

    def is_own(self, address) -> bool:  # noqa: ARG002
        return False

    def send(self, url: str, *hosts: str) -> None:
        outbound = GuardedHttpClient(resolver=self, connector=self)
        try:
            asyncio.run(outbound.send(HttpRequest(url=url, hosts=hosts, seconds=5)))
        finally:
            outbound.close()


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_a_name_with_an_address_that_is_not_public_is_never_connected_to(address):
    world = Counted(address)
    with pytest.raises(Refused, match=r"api\.example\.com has an address that is not public"):
        world.send("https://api.example.com/", "api.example.com")
    assert world.connected == []


@pytest.mark.parametrize("address", [one for one in NOT_PUBLIC if "%" not in one])
def test_an_address_that_is_not_public_is_not_connected_to_by_itself_either(address):
    shown = f"[{ip_address(address)}]" if ":" in address else address
    world = Counted(PUBLIC)
    with pytest.raises(Refused, match="not public"):
        world.send(f"https://{shown}/", shown)
    assert world.connected == []


@pytest.mark.parametrize("address", ARE_PUBLIC)
def test_a_public_address_is_connected_to(address):
    world = Counted(address)
    with pytest.raises(ProwessError, match=r"connection to .* failed"):
        world.send("https://api.example.com/", "api.example.com")
    assert world.connected == [str(ip_address(address))]


def test_over_real_sockets_too_nothing_is_connected_to_but_the_address_that_was_checked(monkeypatch):
    connected: list[tuple[str, int]] = []

    def connect(channel: socket.socket, where: tuple[str, int]) -> None:
        if channel.type == socket.SOCK_STREAM:
            connected.append(where)
        raise ConnectionRefusedError

    monkeypatch.setattr(socket.socket, "connect", connect)
    for address in [*NOT_PUBLIC, *ARE_PUBLIC]:
        outbound = GuardedHttpClient(resolver=Counted(address))
        with pytest.raises(ProwessError):
            asyncio.run(
                outbound.send(HttpRequest(url="https://api.example.com:8443/", hosts=("api.example.com:8443",)))
            )
        outbound.close()
    assert connected == [(str(ip_address(address)), 8443) for address in ARE_PUBLIC]


@given(st.ip_addresses())
def test_whatever_the_standard_library_calls_private_is_not_public_here(address):
    if (
        address.is_private
        or address.is_multicast
        or address.is_loopback
        or address.is_link_local
        or address.is_reserved
    ):
        assert non_public_reason(address) or address in ip_network("2001:4:112::/48")


UNREADABLE = [
    *("", "example.com", "/path", "//example.com/", "https:", "https:///x", "https:example.com", "ftp://example.com/"),
    *("file:///etc/passwd", "gopher://example.com/", "data:text/plain,x", "javascript:alert(1)", "ws://example.com/"),
    *(
        "https://user@example.com/",
        "https://user:pw@example.com/",
        "https://example.com@127.0.0.1/",
        "https://@example.com/",
    ),
    *("https://example.com\\@127.0.0.1/", "https:\\\\example.com/", "https://example.com\\.evil.test/"),
    *("https://exam ple.com/", "https://example.com\t/", "https://example.com/\r\nX: y", "https://example.com/\x00"),
    *("https://0x7f000001/", "https://2130706433/", "https://017700000001/", "https://127.1/", "https://0x7f.1/"),
    *("https://127.0.0.01/", "https://127.0.0.1./", "https://1.2.3.4.5/", "https://example.0x1/", "https://256.1.1.1/"),
    *(
        "https://[::1",
        "https://::1/",
        "https://[::1]x/",
        "https://[fe80::1%25eth0]/",
        "https://[127.0.0.1]/",
        "https://[v1.x]/",
    ),
    *("https://example.com:0/", "https://example.com:65536/", "https://example.com:abc/", "https://example.com:-1/"),
    *("https://example.com:４４３/", "https://éxample.com/", "https://ｅxample.com/", "https://127。0。0。1/"),
    *(
        "https://%65xample.com/",
        "https://example..com/",
        "https://-example.com/",
        "https://example.com-/",
        "https://.com/",
    ),
    *(f"https://{'a' * 64}.com/", f"https://{'a.' * 130}com/", "https://example.com/\ud800", "https://" + "x" * 20_000),
]


@pytest.mark.parametrize("url", UNREADABLE)
def test_what_can_be_read_in_more_than_one_way_is_no_url(url):
    world = Counted(PUBLIC)
    with pytest.raises(Invalid) as caught:
        world.send(url, "example.com", "*.com", "127.0.0.1", "*.evil.test", "*.test")
    assert world.connected == []
    assert caught.value.message.startswith("The ")


@pytest.mark.parametrize(
    ("url", "host", "port", "path"),
    [
        ("https://example.com", "example.com", 443, "/"),
        ("HTTPS://EXAMPLE.COM:443/A?b=C#d", "example.com", 443, "/A?b=C"),
        ("https://example.com?x=1", "example.com", 443, "/?x=1"),
        ("https://example.com:8443/a/../b", "example.com", 8443, "/a/../b"),
        ("https://example.com/ü 1/%2F?q=ä&r=[1]", "example.com", 443, "/%C3%BC%201/%2F?q=%C3%A4&r=%5B1%5D"),
        ("https://a_b.example.com/", "a_b.example.com", 443, "/"),
        ("https://xn--bcher-kva.example/", "xn--bcher-kva.example", 443, "/"),
        ("https://[2606:4700:0:0::1]:8443/", "2606:4700::1", 8443, "/"),
        ("https://example.com:/x", "example.com", 443, "/x"),
        ('https://example.com/a"b<c>', "example.com", 443, "/a%22b%3Cc%3E"),
    ],
)
def test_a_url_is_read_into_host_port_and_path(url, host, port, path):
    target = parse_target(url)
    assert (target.host, target.port, target.path) == (host, port, path)
    assert parse_target(target.url) == target


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("example.com", ["https://example.com/", "https://EXAMPLE.com:443/"], ["https://a.example.com/", "https://example.com:8443/"]),
        ("Example.COM ", ["https://example.com/"], ["https://example.com.evil.test/", "https://notexample.com/"]),
        ("example.com:8443", ["https://example.com:8443/"], ["https://example.com/", "https://example.com:443/"]),
        ("*.example.com", ["https://a.example.com/", "https://a.b.example.com/"], ["https://example.com/", "https://aexample.com/"]),
        ("*.example.com:99", ["https://a.example.com:99/"], ["https://a.example.com/"]),
        ("[2606:4700:0::1]:99", ["https://[2606:4700::1]:99/"], ["https://[2606:4700::1]/", "https://[2606:4700::2]:99/"]),
        ("*", [], ["https://example.com/"]),
        ("*.", [], ["https://example.com/"]),
        ("", [], ["https://example.com/"]),
        ("*.4", [], ["https://1.2.3.4/"]),
        ("exa*.com", [], ["https://example.com/"]),
        ("https://example.com", [], ["https://example.com/"]),
    ],
)  # fmt: skip
def test_a_pattern_stands_for_exactly_the_hosts_that_it_says(pattern, yes, no):
    assert [url for url in yes if not is_host_listed(parse_target(url), [pattern])] == []
    assert [url for url in no if is_host_listed(parse_target(url), [pattern])] == []


@given(st.text(max_size=60), st.text(max_size=20))
def test_no_text_after_the_host_makes_it_another_host(path, query):
    try:
        target = parse_target(f"https://example.com/{path}?{query}")
    except Invalid:
        return
    assert (target.host, target.port, target.path.isascii()) == ("example.com", 443, True)
    assert not set(target.path) & set(' \r\n\t"<>')


@given(st.text(max_size=40))
def test_no_location_makes_a_redirect_end_in_another_error_than_ours(location):
    try:
        found = redirect_target(parse_target("https://example.com/a/b"), location)
    except Invalid:
        return
    assert found.scheme in ("https", "http")


def test_a_route_has_no_path():
    assert parse_route("http://127.0.0.1:8080/").port == 8080
    for text in ("http://127.0.0.1/x", "127.0.0.1:8080", "http://127.0.0.1/?x"):
        with pytest.raises(Invalid):
            parse_route(text)
