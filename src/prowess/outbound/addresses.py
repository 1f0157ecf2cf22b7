"""Which addresses belong to the open internet, by a list of our own.

What the standard library calls global differs between its versions, and counts translated and tunnelled addresses among it
through which private ones are reached. Here an address is public only where no range below says otherwise; of IPv6, only what
is handed out for the internet at all.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address

_IPV4: dict[str, str] = {
    "0.0.0.0/8": "this network",
    "10.0.0.0/8": "private",
    "100.64.0.0/10": "behind a provider's translation",
    "127.0.0.0/8": "this machine",
    "168.63.129.16/32": "the host of a virtual machine",
    "169.254.0.0/16": "link-local",
    "172.16.0.0/12": "private",
    "192.0.0.0/24": "for protocols",
    "192.0.2.0/24": "for documentation",
    "192.31.196.0/24": "for reverse lookups",
    "192.52.193.0/24": "for tunnels",
    "192.88.99.0/24": "for tunnels",
    "192.168.0.0/16": "private",
    "192.175.48.0/24": "for reverse lookups",
    "198.18.0.0/15": "for measurements",
    "198.51.100.0/24": "for documentation",
    "203.0.113.0/24": "for documentation",
    "224.0.0.0/4": "multicast",
    "240.0.0.0/4": "reserved",
}
_IPV6_HANDED_OUT = IPv6Network("2000::/3")
_IPV6: dict[str, str] = {
    "::/128": "this network",
    "::1/128": "this machine",
    "::ffff:0:0/96": "IPv4 in disguise",
    "64:ff9b::/96": "translated to IPv4",
    "64:ff9b:1::/48": "translated to IPv4",
    "2001::/23": "for protocols and tunnels",
    "2001:db8::/32": "for documentation",
    "2002::/16": "tunnelled to IPv4",
    "2620:4f:8000::/48": "for reverse lookups",
    "3ffe::/16": "given back",
    "3fff::/20": "for documentation",
    "fc00::/7": "private",
    "fe80::/10": "link-local",
    "ff00::/8": "multicast",
}
_REFUSED_4 = tuple((IPv4Network(network), why) for network, why in _IPV4.items())
_REFUSED_6 = tuple((IPv6Network(network), why) for network, why in _IPV6.items())


def why_not_public(address: Address) -> str:
    """What an address is, where it is not a public one; '' where it is."""
    if isinstance(address, IPv4Address):
        return next((why for network, why in _REFUSED_4 if address in network), "")
    if address.scope_id is not None:
        return "of one network card"
    found = next((why for network, why in _REFUSED_6 if address in network), "")
    return found or ("" if address in _IPV6_HANDED_OUT else "reserved")


def address_of(text: str) -> Address | None:
    """The address that a text is in its one usual form; None where it is none, or has a zone."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return None if isinstance(address, IPv6Address) and address.scope_id is not None else address
