"""Loading the bundled snapshot into a database: the same way in as live prices, another origin."""

from __future__ import annotations

import hashlib
from datetime import datetime
from importlib import resources

from core.clock import Clock
from core.market import Parsed
from db.engine import Database, reading, writing
from db.ingest import write_run
from db.records import PayloadFacts, RunReport, RunState, SourceFacts
from db.runs import payload_known
from pricing.collect import source_facts
from pricing.registry import PROVIDERS
from pricing.snapshot import EGRESS_FILE, OFFERS_FILE, bundled, titles


def load_snapshot(database: Database, clock: Clock) -> int:
    """Store the bundled prices and tariffs, each under its own date, unless they are there.

    Loading is additive: it never ends an offer, and never touches live prices. A newer program
    brings a newer table, which is loaded on top.

    Returns:
        The number of price rows written; 0 when this very table was loaded before.

    Raises:
        DatabaseError: nothing was written then.
    """
    now = clock.now()
    mark = _fingerprint(now)
    with reading(database) as session:
        if payload_known(session, mark.sha256, origin="snapshot"):
            return 0
    found = bundled()
    written = 0
    known = {provider.name: source_facts(provider) for provider in PROVIDERS}
    names = sorted({o.provider for o in found.offers} | {t.provider for t in found.egress})
    with writing(database) as session:
        for number, name in enumerate(names):
            part = Parsed(
                offers=[offer for offer in found.offers if offer.provider == name],
                egress=[tariff for tariff in found.egress if tariff.provider == name],
                rejected=found.rejected if number == 0 else [],
            )
            facts = known.get(name) or SourceFacts(name, titles.get(name, name), "list", "", 0)
            times = [offer.observed_at for offer in part.offers]
            result = write_run(
                session,
                RunReport(
                    source=facts,
                    origin="snapshot",
                    started_at=now,
                    finished_at=now,
                    observed_at=max(times, default=None),
                    state=RunState.OK,
                    reason="bundled",
                    detail="bundled snapshot",
                    parsed=part,
                    closing=False,
                    payloads=[mark],
                ),
            )
            written += result.opened + result.kept
    return written


def _fingerprint(now: datetime) -> PayloadFacts:
    """Identify this very table by the hash of its files."""
    digest = hashlib.sha256()
    size = 0
    for name in (OFFERS_FILE, EGRESS_FILE):
        content = resources.files("pricing.snapshot").joinpath(name).read_bytes()
        digest.update(content)
        size += len(content)
    return PayloadFacts("bundled snapshot", "bundled:snapshot", digest.hexdigest(), size, now)
