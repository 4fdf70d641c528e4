"""Made traces: deterministic, and like the ones that their model was fitted to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from core.errors import InputError
from optimizer.replay.synthetic import (
    DEFAULT_MODEL,
    RiskModel,
    UpDown,
    fit_risk,
    make_traces,
)
from optimizer.replay.traces import read_trace_sets
from tests.optimizer.replay.cases import pearson, traces
from tests.shared import shared


def test_the_seed_decides() -> None:
    one, same, other = (make_traces(DEFAULT_MODEL, hours=100, seed=s) for s in (1, 1, 2))
    assert one.capacity.tolist() == same.capacity.tolist()
    assert one.capacity.tolist() != other.capacity.tolist()
    assert one.capacity.shape == (1200, 6)


def test_a_model_gives_its_own_means_back() -> None:
    model = RiskModel((("a", "r", UpDown(3.0, 1.0, 4.0, 2.0)),), {})
    made = make_traces(model, hours=60_000, gap_s=300, seed=5)
    assert float(made.capacity.mean()) == pytest.approx(0.75, abs=0.02)
    fitted = fit_risk(made).zones[0][2]
    # Ticks hide runs shorter than 5 minutes, so the fitted means are a little longer.
    assert fitted.up_h == pytest.approx(3.0, rel=0.12)
    assert fitted.down_h == pytest.approx(1.0, rel=0.12)
    assert fitted.up_cv2 == pytest.approx(4.0, rel=0.25)


def test_the_common_shock_takes_a_region_down_together() -> None:
    own = UpDown(1000.0, 1e-3)
    model = RiskModel((("a", "r", own), ("b", "r", own)), {"r": UpDown(2.0, 2.0)})
    made = make_traces(model, hours=2000, seed=1)
    assert float(pearson(made)[0, 1]) > 0.95
    assert float(made.capacity.mean()) == pytest.approx(0.5, abs=0.06)


@pytest.mark.shared
def test_made_traces_are_like_the_real_ones() -> None:
    files = (shared("data", n) for n in ("spot_traces_index.csv", "spot_traces_rle.csv.gz"))
    sets = read_trace_sets(*(path.read_bytes() for path in files))
    real = sets["availability/1-node/aws-02-15-2023/V100x1"]
    made = make_traces(fit_risk(real), hours=3 * real.hours, gap_s=real.gap_s, seed=1)
    assert made.zones == real.zones

    def losses_per_hour_up(levels: np.ndarray[tuple[int, int], np.dtype[np.int64]]) -> list[float]:
        lost = (np.diff(levels, axis=0) < 0).sum(axis=0)
        return list(lost / (levels.sum(axis=0) * real.gap_s / 3600))

    assert list(made.capacity.mean(axis=0)) == pytest.approx(
        list(real.capacity.mean(axis=0)), abs=0.05
    )
    assert losses_per_hour_up(made.capacity) == pytest.approx(
        losses_per_hour_up(real.capacity), rel=0.25
    )
    linked = [pearson(x) for x in (made, real)]
    inside = [c[np.ix_([4, 6, 6, 7], [5, 7, 8, 8])].diagonal().mean() for c in linked]
    assert inside[0] == pytest.approx(inside[1], abs=0.15)


def test_wrong_values_are_named() -> None:
    with pytest.raises(InputError, match="hours 0"):
        make_traces(DEFAULT_MODEL, hours=0)
    with pytest.raises(InputError, match=r"up_cv2 0\.5: must be from 1"):
        replace(UpDown(1.0, 1.0), up_cv2=0.5)
    with pytest.raises(InputError, match="no zone is ever up"):
        fit_risk(traces([0, 0]))
