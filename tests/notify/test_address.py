from __future__ import annotations

import csv
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notify.address import Refused, Target, check_addresses, check_url, masked, refuse
from tests.shared import shared

INSIDE = [
    "127.0.0.1",
    "10.0.0.7",
    "172.31.255.255",
    "192.168.1.1",
    "100.64.0.1",
    "100.127.255.255",
    "169.254.169.254",
    "168.63.129.16",
    "100.100.100.200",
    "0.0.0.0",
    "0.1.2.3",
    "192.0.0.1",
    "192.0.2.1",
    "192.88.99.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.9",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::7f00:1",
    "::ffff:127.0.0.1",
    "::ffff:100.64.0.1",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::1",
    "2001:0:7f00:1::5db8:d822",
    "2001:db8::1",
    "2001:10::1",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    "100::1",
    "4000::1",
]
OUTSIDE = [
    "93.184.216.34",
    "1.1.1.1",
    "100.63.255.255",
    "100.128.0.1",
    "172.32.0.1",
    "192.0.1.1",
    "223.255.255.255",
    "2606:4700:4700::1111",
    "2a00:1450:4001:80b::200e",
    "::ffff:93.184.216.34",
    "64:ff9b::5db8:d822",
]


@pytest.mark.parametrize("ip", INSIDE)
def test_an_address_that_is_not_public_is_refused_with_a_reason(ip: str) -> None:
    assert (refuse(ip) or "").startswith(("a ", "an "))


@pytest.mark.parametrize("ip", OUTSIDE)
def test_a_public_address_is_allowed(ip: str) -> None:
    assert refuse(ip) is None


@given(st.integers(0, 2**32 - 1))
def test_no_wrapping_of_an_ipv4_address_changes_the_verdict(number: int) -> None:
    plain = refuse(IPv4Address(number)) is None
    for wrapped in (
        IPv6Address((0xFFFF << 32) | number),
        IPv6Address((0x2002 << 112) | (number << 80)),
        IPv6Address((0x64FF9B << 96) | number),
    ):
        assert (refuse(wrapped) is None) == plain


@given(st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)))
def test_nothing_that_the_standard_library_calls_private_is_allowed(
    address: IPv4Address | IPv6Address,
) -> None:
    if address.is_private or address.is_multicast or address.is_link_local or address.is_reserved:
        inner = isinstance(address, IPv6Address) and (
            address.ipv4_mapped or int(address) >> 32 == 0x64FF9B << 64
        )
        assert inner or refuse(address) is not None


@pytest.mark.parametrize("ip", ["127.0.0.1", "10.1.2.3", "100.64.0.1", "::1", "fd12::1"])
def test_private_networks_can_be_opted_in(ip: str) -> None:
    assert refuse(ip, allow_private=True) is None


@pytest.mark.parametrize(
    "ip",
    ["169.254.169.254", "fd00:ec2::254", "224.0.0.1", "0.0.0.0", "fe80::1", "::ffff:169.254.1.1"],
)
def test_metadata_link_local_and_multicast_stay_refused_in_a_lab(ip: str) -> None:
    assert refuse(ip, allow_private=True)


def test_the_recorded_cases_end_as_they_should() -> None:
    with shared("cases", "b20_webhook_urls.csv").open(newline="") as file:
        cases = list(csv.DictReader(file))
    assert len(cases) == 14
    for case in cases:
        try:
            target = check_url(case["url"])
            check_addresses(target, [case["resolves_to"]])
            verdict = "ALLOW"
        except Refused:
            verdict = "DENY"
        assert verdict == case["expected"], case


def test_the_recorded_addresses_are_refused_even_behind_a_good_name() -> None:
    with shared("cases", "b20_webhook_urls.csv").open(newline="") as file:
        for case in csv.DictReader(file):
            if case["resolves_to"] in {"", "93.184.216.34"}:
                continue
            with pytest.raises(Refused, match=r"host hooks\.example\.com: resolves to an? "):
                check_addresses(Target("https", "hooks.example.com", 443), [case["resolves_to"]])


@pytest.mark.parametrize(
    "url",
    [
        "https://2130706433/",
        "https://0x7f.1/",
        "https://127.1/",
        "https://0177.0.0.1/",
        "https://127.0.0.1./",
        "https://1.2.3.4.5/",
        "https://good.example\\@127.0.0.1/",
        "https://good.example#@127.0.0.1/",
        "https://good.example /",
        "https://good.example\t/",
        "https://good.example\n/",
        "https://user:hush@good.example/",
        "https://@good.example/",
        "https:good.example/",
        "https:/good.example/",
        "https:///good.example/",
        "//good.example/",
        "https://",
        "https://good.example:99999/",
        "https://good.example:22/",
        "https://good.example:80/",
        "https://good.example:/",
        "https://[::1/",
        "https://[fe80::1%25eth0]/",
        "https://go%6fd.example/",
        "https://good..example/",
        "https://-good.example/",
        "https://gооd.example/",
        "https://localhost/",
        "https://a.localhost/",
        "https://printer.local/",
        "ftp://good.example/",
        "javascript:alert(1)",
        "",
        "https://good.example/" + "a" * 2000,
    ],
)
def test_a_url_that_is_odd_or_reaches_inside_is_refused_in_one_line(url: str) -> None:
    with pytest.raises(Refused) as caught:
        check_url(url)
    assert "\n" not in str(caught.value)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("https://hooks.example.com/abc?x=1", Target("https", "hooks.example.com", 443)),
        ("HTTPS://Hooks.Example.com:8443", Target("https", "hooks.example.com", 8443)),
        ("https://93.184.216.34/x", Target("https", "93.184.216.34", 443)),
        ("https://[2606:4700::1]:443/x", Target("https", "2606:4700::1", 443)),
        ("https://my_host.example/@me:x", Target("https", "my_host.example", 443)),
    ],
)
def test_a_plain_url_is_read(url: str, target: Target) -> None:
    assert check_url(url) == target


def test_the_host_header_holds_the_port_only_where_it_is_not_the_schemes_own() -> None:
    assert check_url("https://a.example/").netloc == "a.example"
    assert check_url("https://a.example:8443/").netloc == "a.example:8443"
    assert check_url("https://[2606:4700::1]/").netloc == "[2606:4700::1]"


def test_http_and_other_ports_need_the_opt_in() -> None:
    with pytest.raises(Refused, match=r"http is not allowed; write https://hooks\.example\.com/"):
        check_url("http://hooks.example.com/hush")
    lab = check_url("http://127.0.0.1:9000/x", allow_private=True)
    assert check_addresses(lab, ["127.0.0.1"], allow_private=True) == [ip_address("127.0.0.1")]
    public = check_url("http://hooks.example.com:9000/x", allow_private=True)
    with pytest.raises(Refused, match="port 9000 is not allowed for a public host"):
        check_addresses(public, ["93.184.216.34"], allow_private=True)


def test_one_bad_address_among_good_ones_refuses_the_host() -> None:
    target = check_url("https://hooks.example.com/")
    good = ["93.184.216.34", "2606:4700::1"]
    assert [str(a) for a in check_addresses(target, [*good, *good])] == good
    with pytest.raises(Refused, match="a private address"):
        check_addresses(target, [*good, "10.0.0.1"])
    with pytest.raises(Refused, match="has no address"):
        check_addresses(target, [])


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        ("https://hooks.example.com/services/hush", "https://hooks.example.com/…"),
        ("https://u:hush@h.example:8443?t=hush", "https://h.example:8443/…"),
        ("anna.hush@example.com", "a…@example.com"),
        ("hush", "…"),
    ],
)
def test_what_is_shown_opens_nothing(target: str, shown: str) -> None:
    assert masked(target) == shown
