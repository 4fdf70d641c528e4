"""Where a message may go: the rules for addresses, as pure functions.

A webhook address is given by a user and called from our network, so it must not reach anything
inside. ``check_url`` looks at the text, ``refuse`` at one resolved address, ``check_addresses`` at
all of them; the transport asks again at every connection, with the address really used, so that a
name that changes between check and use gains nothing.

The blocks are those of the IANA special-purpose registries (RFC 6890 and later). They are listed
here because ``ipaddress.is_global`` differs between versions of Python and is true for mapped
carrier-grade NAT, 6to4, NAT64 and multicast addresses.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from urllib.parse import urlsplit

from core.errors import InputError

Address = IPv4Address | IPv6Address
_Network = IPv4Network | IPv6Network

PORTS = {"https": frozenset({443, 8443}), "http": frozenset({80, 443, 8443})}
"""Ports of public hosts, by scheme. Hosts in a private network that was opted in may use any."""

MAX_URL = 2000

_ALWAYS: tuple[tuple[_Network, str], ...] = tuple(
    (ip_network(block), why)
    for block, why in (
        ("169.254.169.254/32", "a cloud metadata address"),
        ("169.254.170.2/32", "a cloud metadata address"),
        ("168.63.129.16/32", "a cloud metadata address"),
        ("100.100.100.200/32", "a cloud metadata address"),
        ("192.0.0.192/32", "a cloud metadata address"),
        ("fd00:ec2::/32", "a cloud metadata address"),
        ("0.0.0.0/8", "an unspecified address"),
        ("169.254.0.0/16", "a link-local address"),
        ("192.0.0.0/24", "a reserved address"),
        ("192.0.2.0/24", "a documentation address"),
        ("192.88.99.0/24", "a 6to4 relay address"),
        ("198.18.0.0/15", "a benchmarking address"),
        ("198.51.100.0/24", "a documentation address"),
        ("203.0.113.0/24", "a documentation address"),
        ("224.0.0.0/4", "a multicast address"),
        ("240.0.0.0/4", "a reserved address"),
        ("::/128", "an unspecified address"),
        ("64:ff9b:1::/48", "a local NAT64 address"),
        ("2001::/23", "a reserved address"),
        ("2001:db8::/32", "a documentation address"),
        ("3fff::/20", "a documentation address"),
        ("fe80::/10", "a link-local address"),
        ("fec0::/10", "a site-local address"),
        ("ff00::/8", "a multicast address"),
    )
)
"""Refused whatever the settings say; the first that matches names the reason."""

_PRIVATE: tuple[tuple[_Network, str], ...] = tuple(
    (ip_network(block), why)
    for block, why in (
        ("10.0.0.0/8", "a private address"),
        ("100.64.0.0/10", "a carrier-grade NAT address"),
        ("127.0.0.0/8", "a loopback address"),
        ("172.16.0.0/12", "a private address"),
        ("192.168.0.0/16", "a private address"),
        ("::1/128", "a loopback address"),
        ("fc00::/7", "a private address"),
    )
)
"""Refused unless an administrator and the endpoint both opted in."""

_GLOBAL_V6 = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
_NAME = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9_-]{1,63}(?<!-))*")
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*")
_AUTHORITY = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?P<port>:[0-9]{1,5})?")


@dataclass(frozen=True, slots=True)
class Target:
    """An address that passed ``check_url``.

    Attributes:
        host: lower case; an IPv6 address without brackets.
    """

    scheme: str
    host: str
    port: int

    @property
    def netloc(self) -> str:
        """Host and, where it is not the scheme's own, port: the value of ``Host``."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        own = {"https": 443, "http": 80}[self.scheme]
        return host if self.port == own else f"{host}:{self.port}"


class Refused(InputError):
    """An address that messages must not go to; the message never holds path or credentials."""


def refuse(ip: str | Address, *, allow_private: bool = False) -> str | None:
    """Say why nothing may be sent to an IP address, or None when it may.

    IPv4 inside IPv6 (mapped, 6to4, NAT64, Teredo) is unwrapped and judged as IPv4.

    Args:
        allow_private: private, loopback and carrier-grade NAT addresses are allowed; metadata,
            link-local, multicast and reserved ones never are.

    Raises:
        ValueError: ``ip`` is no IP address.
    """
    address = ip_address(ip) if isinstance(ip, str) else ip
    if isinstance(address, IPv6Address) and address.scope_id:
        return "an address with a zone"
    for how, inner in _inside(address):
        if why := refuse(inner, allow_private=allow_private):
            return f"{why} ({how})"
        if how != "Teredo server":
            return None
    for network, why in _ALWAYS:
        if address.version == network.version and address in network:
            return why
    for network, why in _PRIVATE:
        if address.version == network.version and address in network:
            return None if allow_private else why
    if address.is_multicast or address.is_unspecified:
        return "a reserved address"
    if isinstance(address, IPv6Address) and address not in _GLOBAL_V6:
        return "a reserved address"
    return None


def _inside(address: Address) -> list[tuple[str, IPv4Address]]:
    """The IPv4 addresses that an IPv6 address stands for, each with the name of the wrapping."""
    if isinstance(address, IPv4Address):
        return []
    if address.ipv4_mapped is not None:
        return [("IPv4-mapped", address.ipv4_mapped)]
    if address.sixtofour is not None:
        return [("6to4", address.sixtofour)]
    if address in _NAT64:
        return [("NAT64", IPv4Address(int(address) & 0xFFFFFFFF))]
    if address.teredo is not None:
        server, client = address.teredo
        return [("Teredo server", server), ("Teredo", client)]
    return []


def check_url(url: str, *, allow_private: bool = False) -> Target:
    """Check the text of a webhook address; what a name resolves to is checked when connecting.

    Args:
        allow_private: ``http`` and any port are possible (for labs); the ports of public hosts
            are then judged by ``check_addresses``.

    Raises:
        Refused: the reason and the mend; neither path nor credentials are repeated.
    """
    if not url or len(url) > MAX_URL:
        raise Refused(f"url: must have 1 to {MAX_URL} characters")
    if not url.isascii() or not url.isprintable() or any(mark in url for mark in ' \\"<>^`{|}'):
        raise Refused(
            "url: holds a blank, backslash or other character that does not belong into an"
            " address; percent-encode it, and write a host of other letters as xn--…"
        )
    scheme = url.partition(":")[0].lower()
    if scheme not in PORTS or not url[len(scheme) :].startswith("://"):
        raise Refused(f"url: the scheme {_word(scheme)} cannot be used; write https://host/path")
    if scheme == "http" and not allow_private:
        raise Refused(f"url: http is not allowed; write https://{_hint(url)}")
    authority = re.split(r"[/?#]", url.partition("://")[2], maxsplit=1)[0]
    if "@" in authority:
        raise Refused("url: must not hold a user name or password; leave out everything before @")
    if "#" in url:
        raise Refused("url: must not hold a fragment; leave out everything from # on")
    found = _AUTHORITY.fullmatch(authority)
    if found is None:
        raise Refused("url: the host cannot be read; write https://host/path")
    host = found["host"].strip("[]").lower()
    try:
        port = int((found["port"] or ":0")[1:]) or {"https": 443, "http": 80}[scheme]
        split = urlsplit(url)
        agreed = (split.scheme, split.hostname, split.port or port) == (scheme, host, port)
    except ValueError:
        agreed = False
    if not agreed or port > 65535:
        raise Refused("url: host and port can be read in two ways; write https://host/path")
    _check_host(host, bracketed=found["host"].startswith("["), allow_private=allow_private)
    if not allow_private and port not in PORTS[scheme]:
        raise Refused(f"url: port {port} is not allowed; use {_ports(scheme)}")
    return Target(scheme, host, port)


def _check_host(host: str, *, bracketed: bool, allow_private: bool) -> None:
    """Refuse odd notations of numbers and forbidden literal addresses.

    Resolvers read ``2130706433``, ``0x7f.1``, ``0177.0.0.1`` and ``127.1`` as addresses.
    """
    numeric = _NUMBER.fullmatch(host.rpartition(".")[2]) is not None
    if bracketed or numeric:
        try:
            address = ip_address(host)
        except ValueError:
            raise Refused(
                f"url: the host {host} is no plain IP address; write four decimal numbers"
                " or, better, a name"
            ) from None
        if why := refuse(address, allow_private=allow_private):
            raise Refused(f"url: {host} is {why}; messages go to public hosts only")
    elif len(host) > 253 or not _NAME.fullmatch(host):
        raise Refused("url: the host is no valid name; write https://host/path")
    elif not allow_private and (host == "localhost" or host.endswith((".localhost", ".local"))):
        raise Refused(f"url: {host} is a name of this network; messages go to public hosts only")


def check_addresses(
    target: Target, addresses: Sequence[str], *, allow_private: bool = False
) -> list[Address]:
    """Check what a host resolved to: if any address is refused, the host is.

    Returns:
        The addresses, in the resolver's order, each once.

    Raises:
        Refused: no address, a forbidden one, or a port that public hosts may not use.
    """
    checked: list[Address] = []
    for text in addresses:
        try:
            address = ip_address(text)
        except ValueError:
            raise Refused(f"host {target.host}: resolves to no IP address") from None
        if why := refuse(address, allow_private=allow_private):
            raise Refused(f"host {target.host}: resolves to {why}; messages go to public hosts")
        if refuse(address) is None and target.port not in PORTS[target.scheme]:
            raise Refused(
                f"host {target.host}: port {target.port} is not allowed for a public host;"
                f" use {_ports(target.scheme)}"
            )
        if address not in checked:
            checked.append(address)
    if not checked:
        raise Refused(f"host {target.host}: has no address")
    return checked


def masked(url: str) -> str:
    """Return what people may see of an address: scheme and host, nothing that opens anything."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        local, at, domain = url.rpartition("@")
        return f"{local[:1]}…@{domain}"[:200] if at else "…"
    host = re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")[2]
    return f"{scheme}://{host}/…"[:200]


def _ports(scheme: str) -> str:
    *rest, last = sorted(PORTS[scheme])
    return f"{', '.join(map(str, rest))} or {last}"


def _word(scheme: str) -> str:
    return scheme if re.fullmatch(r"[a-z][a-z0-9+.-]{0,19}", scheme) else "of this address"


def _hint(url: str) -> str:
    host = re.split(r"[/?#]", url.partition("://")[2], maxsplit=1)[0].rpartition("@")[2]
    return f"{host.partition(':')[0]}/…" if _NAME.fullmatch(host.partition(":")[0]) else "host/…"
