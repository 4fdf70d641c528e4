"""Measure how far the speed model misses published benchmarks, and write what it found.

    python scripts/calibrate_throughput.py PATH/throughput_published.csv

Reads a table of published throughput, leaves out what cannot be true, fits the mixture-of-experts
and dense constants without one model family (or one card) at a time, and prints and writes the
error on what was left out: ``docs/throughput-calibration.md``. ``--evidence`` also rewrites the
bundled table of measured points.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from optimizer.evidence import Point, Refused, condense, read_published
from optimizer.performance import DENSE, MOE, Constants, outside_calibration
from optimizer.roofline import estimate

ROOT = Path(__file__).resolve().parent.parent
REPORT = ROOT / "docs" / "throughput-calibration.md"
EVIDENCE = ROOT / "optimizer" / "throughput_evidence.csv"

FREE = {
    False: ("eta_weights", "mfu", "sequence_seconds", "layer_seconds"),
    True: ("eta_weights", "mfu", "sequence_seconds", "layer_seconds", "hop_seconds"),
}
"""Constants that are refitted, by "is a mixture of experts"; the others stay as shipped."""

SHARES = frozenset({"eta_weights", "mfu"})
SHARE_LIMIT = 1.0
"""No fit may promise more than the peak."""

Vector = NDArray[np.float64]
Key = Callable[[Point], str]


def family(point: Point) -> str:
    """The source that is left out: one model's measurements, whoever ran them."""
    return point.model.partition("/")[2]


def card(point: Point) -> str:
    """The card that is left out."""
    return point.gpu


def predict(points: Sequence[Point], constants: Constants | None) -> Vector:
    """Output tokens per second by the product's own function."""
    return np.array(
        [
            estimate(
                dataclasses.replace(point.replica(), constants=constants), point.traffic()
            ).output_tokens_per_s
            for point in points
        ]
    )


def fit(points: Sequence[Point], start: Constants, key: Key) -> Constants:
    """Least squares on the logarithm of the ratio; every family weighs the same."""
    free = FREE[start is MOE]
    counts = Counter(map(key, points))
    weight = np.array([(len(points) / counts[key(point)]) ** 0.5 for point in points])
    weight /= weight.mean()
    measured = np.array([point.output_tokens_per_s for point in points])
    origin = np.log([getattr(start, name) for name in free])

    def built(values: Vector) -> Constants:
        found = np.exp(np.clip(values, origin - 3, origin + 3))
        changes: dict[str, Any] = {
            name: min(float(value), SHARE_LIMIT) if name in SHARES else float(value)
            for name, value in zip(free, found, strict=True)
        }
        return dataclasses.replace(start, **changes)

    def residuals(values: Vector) -> Vector:
        misses = weight * np.log(predict(points, built(values)) / measured)
        return np.concatenate([misses, 0.02 * (values - origin)])

    solved = least_squares(residuals, origin, loss="soft_l1", f_scale=0.3, max_nfev=12)
    return built(solved.x)


def errors(points: Sequence[Point], constants: Constants | None) -> Vector:
    """Relative errors, positive where the model is too fast."""
    measured = np.array([point.output_tokens_per_s for point in points])
    return np.asarray(predict(points, constants) / measured - 1, dtype=np.float64)


def row(name: str, values: Vector) -> str:
    """One line of a table."""
    size = np.abs(values)
    return (
        f"| {name} | {len(values)} | {np.median(values):+.1%} | {size.mean():.1%} |"
        f" {np.quantile(size, 0.9):.1%} |"
    )


HEAD = "| left out | rows | median | mean error | p90 |\n|---|---|---|---|---|"


def left_out(points: Sequence[Point], start: Constants, key: Key) -> list[str]:
    """Refit without each group in turn and tabulate the error on that group."""
    lines, everything, means = [HEAD], [], []
    for name in sorted(set(map(key, points))):
        rest = [point for point in points if key(point) != name]
        values = errors([p for p in points if key(p) == name], fit(rest, start, key))
        lines.append(row(name, values))
        everything.append(values)
        means.append(float(np.abs(values).mean()))
    lines.append(row("**all rows**", np.concatenate(everything)))
    lines.append(f"| **mean of the groups** | | | {np.mean(means):.1%} | |")
    return lines


def shipped(points: Sequence[Point], key: Key) -> list[str]:
    """The error of the shipped constants, group by group."""
    lines = [HEAD.replace("left out", "rows of")]
    lines += [
        row(name, errors([p for p in points if key(p) == name], None))
        for name in sorted(set(map(key, points)))
    ]
    lines.append(row("**all rows**", errors(points, None)))
    return lines


def constants_line(constants: Constants) -> str:
    """The fitted values, readable."""
    return (
        f"eta {constants.eta_weights:.3f}, mfu {constants.mfu:.3f},"
        f" per sequence {constants.sequence_seconds * 1e6:.1f} us,"
        f" per layer {constants.layer_seconds * 1e6:.1f} us,"
        f" per layer and doubling {constants.hop_seconds * 1e6:.1f} us"
    )


def report(points: list[Point], refused: list[Refused]) -> str:
    """The whole page."""
    users = condense(point for point in points if point.load == "users")
    static = condense(point for point in points if point.load == "static")
    inside = [p for p in users if not outside_calibration(p.replica(), p.traffic())]
    sections = [INTRODUCTION, "## What was left out of the data\n\n| rows | reason |\n|---|---|"]
    reasons = Counter(item.reason for item in refused)
    sections.append("\n".join(f"| {n} | {reason} |" for reason, n in reasons.most_common()))
    for title, moe, start in (("Dense", False, DENSE), ("Mixture of experts", True, MOE)):
        rows = [p for p in inside if p.replica().model.is_moe is moe]
        sections.append(f"\n## {title}: {len(rows)} set-ups\n\nError on what the fit did not see,")
        sections.append("one model family at a time:\n")
        sections += left_out(rows, start, family)
        sections.append("\none card at a time:\n")
        sections += left_out(rows, start, card)
        sections.append(f"\nShipped constants ({start.source}), no refit:\n")
        sections += shipped(rows, family)
        sections.append(f"\nShipped: {constants_line(start)}.")
        sections.append(f"All rows fitted: {constants_line(fit(rows, start, family))}.")
    sections.append("\n## Static batches of 2024 and 2025 (not fitted, not used for answers)\n")
    sections += shipped(static, lambda p: f"{p.model.partition('/')[2]}, {p.gpu}")
    sections.append(CLOSING)
    return "\n".join(sections) + "\n"


INTRODUCTION = """# How far the speed model misses

Written by `scripts/calibrate_throughput.py`; do not edit by hand. The measured rows are output
tokens per second of vLLM and SGLang under a fixed number of users (aiconfigurator's silicon
samples, Apache-2.0). One row per set-up: where a set-up was measured several times the median
counts. Error = predicted / measured - 1; "mean error" is the mean of its size. Repeated
measurements of one set-up differ from their mean by about 6 %, so no model can do better.
"""

CLOSING = """
They are batches run from start to end by engines of that time, whose time per step was set by the
host. Today's engines are faster; the rows are shown so that nobody mistakes the tables above for
an error that holds everywhere. Consumer cards, L4, A10G, T4, A100 under load, AMD and Gaudi have
hardly any rows: answers there say "extrapolated" and carry 35 % (dense) or 50 % (mixture of
experts). No constant was set for a single row of the tables above.

## What the tables do not say

- DeepSeek's worst rows (B200, B300 under SGLang) have first tokens after 5 to 9 s at 4 to 8 users,
  where the prompts take 0.3 s: the run was disturbed, probably by compilation. They are kept, as
  nothing in them is impossible.
- Qwen3-235B was measured with engines of late 2025 only, and is predicted too fast throughout.
- Weighing every family the same, the error on left-out mixtures of experts is slightly above 20 %;
  weighing every row the same it is below. New architectures should expect the larger figure.
- The sources do not state how GPUs of one replica are split (tensor, expert or attention-data
  parallel); all are read as one tensor-parallel group."""


def write_evidence(points: Sequence[Point], path: Path) -> None:
    """Write the bundled table."""
    fields = [field.name for field in dataclasses.fields(Point)]
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, fields, lineterminator="\n")
        writer.writeheader()
        writer.writerows(dataclasses.asdict(point) for point in points)


def main(arguments: Sequence[str] | None = None) -> int:
    """Read, judge, fit, print and write; returns the exit code."""
    parser = argparse.ArgumentParser(description="error of the speed model on published points")
    parser.add_argument("table", type=Path, help="throughput_published.csv")
    parser.add_argument("--evidence", action="store_true", help="rewrite the bundled table too")
    chosen = parser.parse_args(arguments)
    with chosen.table.open(encoding="utf-8", newline="") as stream:
        points, refused = read_published(csv.DictReader(stream))
    if chosen.evidence:
        write_evidence(condense(points), EVIDENCE)
    page = report(points, refused)
    REPORT.write_text(page, "utf-8")
    sys.stdout.write(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
