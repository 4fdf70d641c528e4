"""AWS's requests: names, signatures, pages, and what happens when one fails."""

from __future__ import annotations

import hmac
from hashlib import sha256
from urllib.parse import urlsplit

import pytest

from core.errors import SourceError
from core.market import Failure
from core.settings import Settings
from pricing.providers.aws import PROVIDER, fetch, primary, signed_request
from pricing.source import Payload
from tests.pricing.acceptance import FakeSession
from tests.pricing.aws_rows import (
    AT,
    HISTORY,
)
from tests.shared import payloads

KEYS = {"aws_access_key_id": "AKIDEXAMPLE", "aws_secret_access_key": "very-secret-value"}
REGIONS = ("us-east-1", "eu-west-1")
ALWAYS = [
    "AmazonEC2_us-east-1_index.csv",
    "AmazonEC2_eu-west-1_index.csv",
    "spot.json",
    "spot-advisor-data.json",
    "AWSDataTransfer_index.csv",
]


def page(token: str = "") -> bytes:
    return f"<a><nextToken>{token}</nextToken></a>".encode()


def test_without_a_key_the_public_documents_are_fetched_by_name() -> None:
    session = FakeSession(lambda name: b"x", aws_regions=REGIONS)
    assert [p.name for p in fetch(session) if isinstance(p, Payload)] == ALWAYS
    by_name = {name: url for name, url, _, _ in session.requests}
    assert by_name[ALWAYS[1]] == (
        "https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonEC2/current"
        "/eu-west-1/index.csv"
    )
    assert by_name["spot.json"] == "https://website.spot.ec2.aws.a2z.com/spot.json"


def test_with_a_key_every_page_of_zonal_prices_is_fetched_signed() -> None:
    answers = {
        "describe_spot_price_history_us-east-1.xml": page("a+b/c=&amp;"),
        "describe_spot_price_history_us-east-1_p2.xml": page("second"),
    }
    session = FakeSession(lambda name: answers.get(name, page()), aws_regions=REGIONS, **KEYS)
    names = [p.name for p in fetch(session) if isinstance(p, Payload)]
    assert names == [
        *ALWAYS,
        "describe_spot_price_history_us-east-1.xml",
        "describe_spot_price_history_us-east-1_p2.xml",
        "describe_spot_price_history_us-east-1_p3.xml",
        "describe_spot_price_history_eu-west-1.xml",
    ]
    assert primary(names) == names
    signed = [r for r in session.requests if r[0].startswith("describe")]
    for name, url, sent, headers in session.requests:
        assert "very-secret-value" not in f"{name}{url}{sent}{headers}"
    for name, url, _, headers in signed:
        region = "us-east-1" if "us-east-1" in name else "eu-west-1"
        assert url.startswith(f"https://ec2.{region}.amazonaws.com/?Action=DescribeSpotPrice")
        assert "ProductDescription.1=Linux%2FUNIX" in url
        assert "StartTime=2026-11-30T12%3A00%3A00Z" in url
        assert f"/{region}/ec2/aws4_request" in headers["Authorization"]
    assert ["NextToken=a%2Bb%2Fc%3D%26&" in r[1] for r in signed] == [False, True, False, False]


def test_the_signature_is_what_version_4_prescribes_for_the_address_that_is_sent() -> None:
    """Computed by hand from AWS's description of Signature Version 4, query in the address."""
    settings = Settings.model_validate(KEYS | {"aws_session_token": "session-token"})
    url, headers = signed_request(settings, "eu-west-1", AT, "a+b/c==")
    parts = urlsplit(url)
    stamp = headers["X-Amz-Date"]
    scope = f"{stamp[:8]}/eu-west-1/ec2/aws4_request"
    signed = f"host:{parts.netloc}\nx-amz-date:{stamp}\nx-amz-security-token:session-token\n"
    names = "host;x-amz-date;x-amz-security-token"
    request = f"GET\n/\n{parts.query}\n{signed}\n{names}\n{sha256(b'').hexdigest()}"
    digest = sha256(request.encode()).hexdigest()
    key = b"AWS4" + KEYS["aws_secret_access_key"].encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{digest}"
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    assert headers["Authorization"] == (
        f"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/{scope},"
        f" SignedHeaders={names}, Signature={signature}"
    )
    assert parts.query.split("&") == sorted(parts.query.split("&"))


def test_the_public_documents_are_asked_for_without_the_key() -> None:
    session = FakeSession(lambda name: page(), aws_regions=REGIONS, **KEYS)
    list(fetch(session))
    assert all(not r[3] for r in session.requests if not r[0].startswith("describe"))


def refusing(*names: str) -> FakeSession:
    def answer(name: str) -> object:
        return SourceError("no", reason="http_503", status=503) if name in names else page()

    return FakeSession(answer, aws_regions=REGIONS, **KEYS)


@pytest.mark.parametrize("name", [*ALWAYS, "describe_spot_price_history_us-east-1.xml"])
def test_one_document_that_fails_does_not_stop_the_rest(name: str) -> None:
    found = list(fetch(refusing(name)))
    assert [(f.reason, f.source_file) for f in found if isinstance(f, Failure)] == [
        ("http_503", name)
    ]
    assert sum(isinstance(p, Payload) for p in found) == 6


def test_a_walk_that_breaks_off_publishes_none_of_its_pages() -> None:
    def answer(name: str) -> object:
        if name.endswith("_p2.xml"):
            return SourceError("no", reason="timeout")
        return page("more") if "history_us-east-1" in name else page()

    found = list(fetch(FakeSession(answer, aws_regions=REGIONS, **KEYS)))
    assert [p.name for p in found if isinstance(p, Payload)] == [
        *ALWAYS,
        "describe_spot_price_history_eu-west-1.xml",
    ]
    assert [f.reason for f in found if isinstance(f, Failure)] == ["timeout"]


def test_pages_without_end_are_given_up() -> None:
    found = list(fetch(FakeSession(lambda name: page("again"), aws_regions=REGIONS, **KEYS)))
    assert [f.reason for f in found if isinstance(f, Failure)] == ["too_many_pages"] * 2


def test_when_every_list_fails_the_run_fails() -> None:
    with pytest.raises(SourceError) as caught:
        list(fetch(refusing(*ALWAYS[:2])))
    assert caught.value.reason == "http_503"


@pytest.mark.parametrize("half", KEYS)
def test_half_a_key_is_told_once(half: str) -> None:
    session = FakeSession(lambda name: b"x", aws_regions=REGIONS, **{half: KEYS[half]})
    told = [f for f in fetch(session) if isinstance(f, Failure)]
    assert [f.reason for f in told] == ["no_key"]
    assert KEYS[half] not in told[0].detail
    assert session.names == ALWAYS


@pytest.mark.shared
def test_a_recorded_folder_uses_what_a_network_run_would_have() -> None:
    names = sorted(p.name for p in payloads("aws").iterdir())
    assert primary(names) == [
        "AWSDataTransfer_index.csv",
        "AmazonEC2_us-east-1_index.csv",
        "describe_spot_price_history_eu-central-1.json",
        "describe_spot_price_history_us-east-1.json",
        "spot-advisor-data.json",
        "spot.json",
    ]
    only_xml = [n for n in names if n != HISTORY]
    assert "describe_spot_price_history_us-east-1.xml" in primary(only_xml)


def test_the_provider_needs_no_key_and_is_read_every_hour() -> None:
    assert (PROVIDER.name, PROVIDER.kind, PROVIDER.needs) == ("aws", "list", ())
    assert PROVIDER.every.total_seconds() == 3600
