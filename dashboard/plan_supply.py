"""The offers that a plan chooses from, on the price basis that its selection names; and a plan
looked at again over them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from db.engine import Session
    from optimizer.plan_repricing import Repriced
    from optimizer.selection import Selection
    from optimizer.supply import Supply


def selected_supply(
    session: Session, now: datetime, selection: Selection, *, gpus: Sequence[str] = ()
) -> Supply:
    """Read what a selection gives now; prices over time end when prices were last seen."""
    from optimizer.selection import on_basis
    from optimizer.supply import select_supply
    from pricing.basis import basis_prices

    supply = select_supply(session, now, selection, gpus=gpus)
    if supply.prices_as_of is None or selection.price_basis == "latest":
        return supply
    prices = basis_prices(
        session,
        [option.offer_id for option in supply.options],
        selection.price_basis,
        supply.prices_as_of,
    )
    return replace(supply, options=on_basis(supply.options, selection.price_basis, prices))


def repriced(session: Session, document: Mapping[str, Any], now: datetime) -> Repriced:
    """Look at a plan again: over the offers of its own selection and basis, and its price rows.

    Raises:
        InputError: the document is no plan.
        DataError: no prices are stored, or all that could be planned on are stale.
    """
    from db.spans import prices_of_rows
    from optimizer.plan_repricing import reprice, selection_of
    from optimizer.receipt import open_plan

    opened = open_plan(document)
    supply = selected_supply(session, now, selection_of(document), gpus=opened.workload.gpus)
    supply.require_prices()
    rows = [row.price_row for row in opened.rows or () if row.price_row is not None]
    return reprice(document, supply, now=now, row_prices=prices_of_rows(session, rows))
