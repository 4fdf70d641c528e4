"""Where each series of a rule stands, and the prices that it is compared with."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from db.saved_models import AlertStateRow, BaselineRow


@dataclass(frozen=True, slots=True)
class StoredBaseline:
    """Prices by offer under a name, with their statistic."""

    value: Decimal
    at: datetime
    prices: Mapping[str, Decimal]


def states_of(session: Session, rule_id: str) -> dict[str, Mapping[str, Any]]:
    """Return the state documents of a rule by series."""
    rows = session.scalars(select(AlertStateRow).where(AlertStateRow.rule_id == rule_id))
    return {row.series: json.loads(row.state) for row in rows}


def phases(session: Session) -> dict[tuple[str, str], int]:
    """Count the series by (rule, phase)."""
    rows = session.execute(select(AlertStateRow.rule_id, AlertStateRow.state))
    return dict(Counter((rule, str(json.loads(state)["phase"])) for rule, state in rows))


def write_states(
    session: Session, rule_id: str, states: Mapping[str, Mapping[str, Any]], now: datetime
) -> None:
    """Store the states of some series."""
    _upsert(
        session,
        AlertStateRow,
        ["rule_id", "series"],
        [
            {
                "rule_id": rule_id,
                "series": series,
                "state": json.dumps(state, separators=(",", ":")),
                "updated_at": now,
            }
            for series, state in states.items()
        ],
    )


def baselines_of(session: Session, rule_id: str) -> dict[str, dict[str, StoredBaseline]]:
    """Return the baselines of a rule by series and name."""
    found: dict[str, dict[str, StoredBaseline]] = {}
    for row in session.scalars(select(BaselineRow).where(BaselineRow.rule_id == rule_id)):
        prices = {key: Decimal(usd) for key, usd in json.loads(row.prices).items()}
        found.setdefault(row.series, {})[row.name] = StoredBaseline(row.value, row.at, prices)
    return found


def write_baselines(
    session: Session,
    rule_id: str,
    baselines: Mapping[tuple[str, str], StoredBaseline],
    dropped: Collection[tuple[str, str]] = (),
) -> None:
    """Store baselines by (series, name), and forget others."""
    for series, name in dropped:
        session.execute(
            delete(BaselineRow).where(
                BaselineRow.rule_id == rule_id,
                BaselineRow.series == series,
                BaselineRow.name == name,
            )
        )
    _upsert(
        session,
        BaselineRow,
        ["rule_id", "name", "series"],
        [
            {
                "rule_id": rule_id,
                "name": name,
                "series": series,
                "value": item.value,
                "offers": len(item.prices),
                "at": item.at,
                "prices": json.dumps(
                    {key: format(usd, "f") for key, usd in item.prices.items()},
                    separators=(",", ":"),
                ),
            }
            for (series, name), item in baselines.items()
        ],
    )


_CHUNK = 200


def _upsert(session: Session, table: Any, key: list[str], rows: Sequence[dict[str, Any]]) -> None:
    dialect = postgresql if session.get_bind().dialect.name == "postgresql" else sqlite
    for start in range(0, len(rows), _CHUNK):
        insert = dialect.insert(table).values(list(rows[start : start + _CHUNK]))
        later = {name: insert.excluded[name] for name in rows[0] if name not in key}
        session.execute(insert.on_conflict_do_update(index_elements=key, set_=later))
