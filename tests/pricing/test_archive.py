"""The archive of raw payloads: kept whole, once, without keys, for its days; read again exactly."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given as over
from hypothesis import strategies as st

from core.clock import FixedClock
from core.errors import ConfigError, DataError, InputError, SourceError
from core.market import Failure, Parsed
from core.settings import Settings
from db.engine import Database, reading
from db.findings import accepted_as
from db.ingest import open_prices
from db.offers import history
from db.records import OfferFilter, RunState
from db.runs import last_look, payloads_of, recent_runs
from pricing import run as runs
from pricing.archive import Archive, archive_of
from pricing.archived_run import opened
from pricing.bodies import SPOOL_ABOVE_BYTES, Spool
from pricing.collect import RunSummary, Traffic, collect, given
from pricing.rows import RowLog, load_json
from pricing.run import accept_run, collect_recorded
from pricing.source import Payload
from tests.builders import a_payload, a_provider, an_offer, hour


def parse(payloads: Sequence[Payload]) -> Parsed:
    result = Parsed()
    for payload in payloads:
        log = RowLog(payload)
        for name, usd in (load_json(log) or {}).items():
            with log.row({name: usd}):
                log.offer(
                    an_offer(instance_type=name, usd_per_hour=usd, observed_at=payload.fetched_at)
                )
        result.merge(log.done())
    return result


ACME = a_provider(parse)


@pytest.fixture(autouse=True)
def _acme_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "PROVIDERS", (ACME,))
    monkeypatch.setattr(runs, "by_name", {"acme": ACME}.__getitem__)


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(tmp_path / "archive", 14, (b"sk-secret-key",))


def prices(usd: str, count: int = 12) -> bytes:
    return json.dumps({f"m{n}": float(usd) for n in range(count)}).encode()


def look(
    database: Database, archive: Archive, at: float, *items: Payload | Failure | bytes
) -> RunSummary:
    given_items = [a_payload(i, at=hour(at)) if isinstance(i, bytes) else i for i in items]
    return collect(
        database, ACME, lambda _: given(given_items), FixedClock(hour(at)), archive=archive
    )


def stored(database: Database) -> set[str]:
    with reading(database) as session:
        return {str(p.normalize()) for p in open_prices(session, "acme", "live").values()}


def files(archive: Archive) -> list[str]:
    return sorted(
        str(path.relative_to(archive.folder))
        for path in archive.folder.rglob("*")
        if path.is_file() and "objects" not in path.parts
    )


def test_each_run_keeps_its_payloads_under_its_number(sqlite: Database, archive: Archive) -> None:
    first = look(sqlite, archive, 0, prices("2"))
    failed = look(sqlite, archive, 1, b"<html><title>Just a moment...</title></html>")
    suspect = look(sqlite, archive, 2, prices("9"))
    assert [r.state for r in (first, failed, suspect)] == [
        RunState.OK, RunState.FAILED, RunState.SUSPECT,
    ]  # fmt: skip
    assert files(archive) == [
        f"{n}/{name}" for n in (1, 2, 3) for name in ("acme/prices.json.gz", "manifest.json")
    ]
    with opened(archive.folder / "3") as (name, payloads, failures):
        (payload,) = payloads
        assert (name, failures) == ("acme", [])
        assert payload == a_payload(prices("9"), at=hour(2))
    assert gzip.decompress((archive.folder / "1/acme/prices.json.gz").read_bytes()) == prices("2")


def test_an_unchanged_payload_takes_no_more_room(sqlite: Database, archive: Archive) -> None:
    for at in range(3):
        look(sqlite, archive, at, prices("2"))
    one, *others = [archive.folder / f"{n}/acme/prices.json.gz" for n in (1, 2, 3)]
    assert all(one.samefile(other) for other in others)
    assert one.stat().st_nlink == 4


def test_a_file_system_without_links_gets_copies(
    sqlite: Database, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    look(sqlite, archive, 0, prices("2"))
    with opened(archive.folder / "1") as (_, payloads, _failures):
        assert payloads[0].read() == prices("2")


def test_a_large_payload_goes_through_files_and_they_are_cleared_away(archive: Archive) -> None:
    body = os.urandom(1 << 20) * (SPOOL_ABOVE_BYTES // (1 << 20) + 1)
    facts = archive.keep(a_payload(body), hour(0))
    folder = archive.seal(1, "acme", [facts], [], hour(0))
    assert folder is not None
    with opened(folder) as (_, payloads, _failures):
        (payload,) = payloads
        assert isinstance(payload.body, Path)
        assert payload.read() == body
    assert not payload.body.exists()


@pytest.mark.parametrize("at", [0, (1 << 20) - 5, 3 << 20])
def test_a_body_that_repeats_a_key_is_never_stored(archive: Archive, at: int) -> None:
    body = b"x" * at + b"sk-secret-key" + b"y" * 100
    facts = archive.keep(a_payload(body), hour(0))
    good = archive.keep(a_payload(b"{}", name="good.json"), hour(0))
    archive.seal(1, "acme", [facts, good], [], hour(0))
    assert files(archive) == ["1/acme/good.json.gz", "1/manifest.json"]
    for path in archive.folder.rglob("*.gz"):
        assert b"sk-secret-key" not in gzip.decompress(path.read_bytes())
    with (
        pytest.raises(DataError, match="a payload was left out"),
        opened(archive.folder / "1", [facts, good]),
    ):
        pass


def test_the_keys_of_the_settings_are_what_is_looked_for(tmp_path: Path) -> None:
    settings = Settings.model_validate(
        {"runpod_api_key": "rp-123456", "aws_session_token": "tok", "archive_dir": tmp_path}
    )
    assert archive_of(settings) == Archive(tmp_path, 14, (b"rp-123456",))


def test_runs_and_bodies_go_after_their_days(sqlite: Database, archive: Archive) -> None:
    for day, usd in enumerate(("2", "2", "2.1")):
        look(sqlite, archive, day * 24, prices(usd))
    assert archive.prune(hour(14 * 24)) == 0
    assert archive.prune(hour(14 * 24 + 1)) == 1
    assert {name[0] for name in files(archive)} == {"2", "3"}
    assert len(list(archive.folder.glob("objects/*/*.gz"))) == 2, "run 2 still holds the first"
    assert archive.prune(hour(17 * 24)) == 2
    assert files(archive) == []
    assert list(archive.folder.glob("objects/*/*.gz")) == []


def test_what_a_killed_process_left_is_no_run_and_goes_in_time(archive: Archive) -> None:
    archive.folder.mkdir()
    left = archive.folder / ".run-abc"
    left.mkdir()
    stamp = hour(0).timestamp()
    os.utime(left, (stamp, stamp))
    assert archive.prune(hour(47)) == 0
    assert left.exists()
    assert archive.prune(hour(49)) == 0
    assert not left.exists()


def test_with_zero_days_runs_are_not_kept(sqlite: Database, tmp_path: Path) -> None:
    none = Archive(tmp_path / "archive", 0)
    assert look(sqlite, none, 0, prices("2")).state is RunState.OK
    assert files(none) == []


def test_a_folder_that_cannot_be_written_costs_the_archive_and_not_the_run(
    sqlite: Database, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("not a folder")
    summary = look(sqlite, Archive(tmp_path / "file", 14), 0, prices("2"))
    assert (summary.state, summary.findings) == (RunState.OK, 1)
    with reading(sqlite) as session:
        run = last_look(session, "acme", "live")
        assert run is not None
        assert len(payloads_of(session, run.id)) == 1


@pytest.mark.parametrize("damage", ["body", "manifest", "swapped", "outside"])
def test_a_damaged_archive_is_one_clear_line(archive: Archive, damage: str) -> None:
    facts = archive.keep(a_payload(b'{"a": 2}'), hour(0))
    folder = archive.seal(7, "acme", [facts], [], hour(0))
    assert folder is not None
    body, manifest = folder / "acme" / "prices.json.gz", folder / "manifest.json"
    if damage == "body":
        body.unlink()
        body.write_bytes(b"\x1f\x8b\x08 cut")
    elif damage == "manifest":
        manifest.write_text("{")
    elif damage == "swapped":
        body.unlink()
        body.write_bytes(gzip.compress(b'{"a": 3}'))
    else:
        manifest.write_text(manifest.read_text().replace("acme/prices", "../../etc/prices"))
    with pytest.raises(DataError) as caught, opened(folder):
        pass
    assert "\n" not in str(caught.value)
    assert "restore it" in str(caught.value)
    with pytest.raises(DataError, match="no such run in the archive"), opened(folder / "8"):
        pass


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=6,
)


@over(json_values, st.sampled_from(["schema", "provider", "payloads", "failures", "all"]))
def test_whatever_a_manifest_holds_it_is_read_or_refused_in_one_line(
    value: object, where: str
) -> None:
    with TemporaryDirectory() as place:
        archive = Archive(Path(place), 14)
        facts = archive.keep(a_payload(b"{}"), hour(0))
        folder = archive.seal(1, "acme", [facts], [Failure("a", "b")], hour(0))
        assert folder is not None
        path = folder / "manifest.json"
        good = json.loads(path.read_text())
        path.write_text(json.dumps(value if where == "all" else {**good, where: value}))
        said = ""
        try:
            with opened(folder) as (name, payloads, failures):
                assert isinstance(name, str)
                assert all(p.read() == b"{}" for p in payloads)
                assert isinstance(failures, list)
        except DataError as error:
            said = str(error)
        assert "\n" not in said


def test_a_run_of_a_provider_that_is_no_more_is_one_clear_line(archive: Archive) -> None:
    facts = archive.keep(a_payload(b"{}"), hour(0))
    folder = archive.seal(1, "gone", [facts], [], hour(0))
    assert folder is not None
    with pytest.raises(DataError, match="a run of gone, which this program does not collect"):
        list(collect_recorded(None, folder, FixedClock(hour(1)), (), None, print))  # type: ignore[arg-type]


def test_a_body_can_be_had_by_its_hash_unless_it_is_damaged(
    archive: Archive, tmp_path: Path
) -> None:
    facts = archive.keep(a_payload(b'{"a": 2}'), hour(0))
    spool = Spool(tmp_path)
    assert archive.body(facts.sha256, spool) == b'{"a": 2}'
    assert archive.body("0" * 64, spool) is None
    (place,) = archive.folder.glob("objects/*/*.gz")
    place.write_bytes(gzip.compress(b"other"))
    assert archive.body(facts.sha256, spool) is None
    assert archive.keep(a_payload(b'{"a": 2}'), hour(1)) == facts
    assert archive.body(facts.sha256, spool) == b'{"a": 2}', "stored anew"


# --- read again, and accepted


def again(database: Database, archive: Archive, run: int, **changes: Any) -> RunSummary:
    (summary,) = collect_recorded(
        database, archive.folder / str(run), FixedClock(hour(99)), changes.get("names", ()),
        changes.get("observed_at"), lambda _: None, archive,
    )  # fmt: skip
    return summary


def test_a_run_read_again_stands_at_its_own_time_and_changes_nothing(
    sqlite: Database, archive: Archive
) -> None:
    look(sqlite, archive, 0, prices("2"))
    with reading(sqlite) as session:
        before = history(session, OfferFilter())
    summary = again(sqlite, archive, 1)
    assert (summary.state, summary.result.opened, summary.result.kept) == (RunState.OK, 0, 12)
    with reading(sqlite) as session:
        assert history(session, OfferFilter()) == before
        assert recent_runs(session)[0].observed_at == hour(0)
    assert again(sqlite, archive, 1, names=["acme"]).state is RunState.OK
    with pytest.raises(ConfigError, match="holds a run of acme, not of aws"):
        again(sqlite, archive, 1, names=["aws"])


def test_a_run_that_broke_off_does_not_look_complete_when_read_again(
    sqlite: Database, archive: Archive
) -> None:
    look(sqlite, archive, 0, prices("2", 12))

    @contextmanager
    def answers(_: Traffic) -> Iterator[Iterator[Payload | Failure]]:
        def stream() -> Iterator[Payload | Failure]:
            yield a_payload(prices("2", 8), at=hour(1))
            raise SourceError("no more", reason="timeout")

        yield stream()

    broken = collect(sqlite, ACME, answers, FixedClock(hour(1)), archive=archive)
    assert broken.state is RunState.FAILED
    told = again(sqlite, archive, 2)
    assert (told.state, told.reason, told.result.closed) == (RunState.PARTIAL, "timeout", 0)


def test_a_person_accepts_a_suspect_run_and_its_values_apply_at_its_time(
    database: Database, archive: Archive
) -> None:
    look(database, archive, 0, prices("2"))
    suspect = look(database, archive, 1, prices("9"))
    assert (suspect.state, stored(database)) == (RunState.SUSPECT, {"2"})
    run = suspect.result.run_id
    summary = accept_run(database, archive, FixedClock(hour(5)), run)
    assert (summary.state, summary.reason) == (RunState.OK, "accepted")
    assert summary.detail == f"run {run}, accepted by a person"
    assert stored(database) == {"9"}
    with reading(database) as session:
        assert accepted_as(session, run) == summary.result.run_id
        spans = history(session, OfferFilter())
    assert {s.valid_from for s in spans if s.valid_to is None} == {hour(1)}
    with pytest.raises(InputError, match=f"accepted before, as run {summary.result.run_id}"):
        accept_run(database, archive, FixedClock(hour(5)), run)


def test_accepting_a_short_list_ends_what_it_does_not_hold(
    sqlite: Database, archive: Archive
) -> None:
    look(sqlite, archive, 0, prices("2", 12))
    short = look(sqlite, archive, 1, prices("2", 3))
    assert short.reason == "offers_halved"
    told = accept_run(sqlite, archive, FixedClock(hour(2)), short.result.run_id)
    assert (told.state, told.result.closed) == (RunState.OK, 9)


def test_a_part_that_failed_then_ends_nothing_when_accepted(
    sqlite: Database, archive: Archive
) -> None:
    look(sqlite, archive, 0, prices("2", 12))
    suspect = look(sqlite, archive, 1, prices("9", 8), *[Failure("http_500", "no eu", "eu.json")])
    assert suspect.state is RunState.SUSPECT
    told = accept_run(sqlite, archive, FixedClock(hour(2)), suspect.result.run_id)
    assert (told.state, told.reason, told.result.closed) == (RunState.PARTIAL, "http_500", 0)
    assert stored(sqlite) == {"9", "2"}


def test_what_cannot_be_accepted_says_why(sqlite: Database, archive: Archive) -> None:
    def refused(run: int, error: type[Exception], words: str) -> None:
        before = stored(sqlite)
        with pytest.raises(error, match=words):
            accept_run(sqlite, archive, FixedClock(hour(9)), run)
        assert stored(sqlite) == before

    look(sqlite, archive, 0, prices("2"))
    refused(77, InputError, "run 77: no such run")
    refused(1, InputError, "run 1 of acme is ok: only a suspect run")
    look(sqlite, archive, 1, b"")
    refused(2, InputError, "is failed")
    look(sqlite, archive, 2, prices("9"))
    with Path(archive.folder / "3" / "manifest.json").open("r+") as text:
        other = text.read().replace('"sha256": "', '"sha256": "0')
        text.seek(0)
        text.write(other)
    refused(3, DataError, "its hash differs")
    elsewhere = Archive(archive.folder.parent / "elsewhere", 14)
    with pytest.raises(DataError, match="on the machine that collected it"):
        accept_run(sqlite, elsewhere, FixedClock(hour(9)), 3)
    look(sqlite, archive, 3, prices("2.2"))
    refused(3, InputError, "older than run 4, which wrote prices")


def test_the_archive_of_another_database_is_not_taken_for_ours(
    sqlite: Database, archive: Archive
) -> None:
    look(sqlite, archive, 0, prices("2"))
    suspect = look(sqlite, archive, 1, prices("9"))
    facts = archive.keep(a_payload(prices("5")), hour(1))
    archive.seal(suspect.result.run_id, "acme", [facts], [], hour(1))
    with pytest.raises(DataError, match="the archive is of another database"):
        accept_run(sqlite, archive, FixedClock(hour(2)), suspect.result.run_id)


def test_times_of_payloads_survive_to_the_microsecond(archive: Archive) -> None:
    at = datetime.fromisoformat("2026-11-30T01:02:03.000004+00:00") + timedelta(0)
    facts = archive.keep(Payload("a b/../c.json", b"{}", "https://acme.example/", at), hour(0))
    folder = archive.seal(1, "acme", [facts], [Failure("x", "y", "z")], hour(0))
    assert folder is not None
    with opened(folder) as (_, payloads, failures):
        assert payloads == [Payload("a b/../c.json", b"{}", "https://acme.example/", at)]
        assert failures == [Failure("x", "y", "z")]
    assert files(archive) == ["1/acme/payload-0.gz", "1/manifest.json"]
