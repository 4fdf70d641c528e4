"""Cost against lost work, one dot per policy, as an SVG that needs nothing else to be shown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from optimizer.replay.compare import Row

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 860, 520, 90, 60, 50, 30
COLOURS = {"SpotHedge": "#b45309", "ours": "#1d4ed8"}
OTHER = "#4b5563"
LEAST_LOST = 1e-5
"""The axis is logarithmic: less than this is drawn here."""


def chart(rows: Sequence[Row], title: str) -> str:
    """Draw cost (share of on-demand) across, lost share of the work (logarithmic) up."""
    lost = [max(1 - row.served_share, LEAST_LOST) for row in rows]
    low = math.floor(math.log10(min(lost)))
    high = max(math.ceil(math.log10(max(lost))), low + 1)
    most = math.ceil(max(row.cost_share for row in rows) * 10) / 10

    def across(cost: float) -> float:
        return LEFT + cost / most * (WIDTH - LEFT - RIGHT)

    def up(share: float) -> float:
        place = (math.log10(max(share, LEAST_LOST)) - low) / (high - low)
        return HEIGHT - BOTTOM - place * (HEIGHT - BOTTOM - TOP)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
        f' font-family="sans-serif" font-size="12"><title>{escape(title)}</title>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="24" font-size="15">{escape(title)}</text>',
    ]
    for power in range(low, high + 1):
        y = up(10.0**power)
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e5e7eb"/>'
            f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:.4g}</text>'
        )
    for tenth in range(0, round(most * 10) + 1, 2 if most > 1 else 1):
        x = across(tenth / 10)
        parts.append(
            f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">'
            f"{tenth / 10:.1f}</text>"
        )
    parts.append(
        f'<text x="{(LEFT + WIDTH) / 2:.0f}" y="{HEIGHT - 16}" text-anchor="middle">cost, share of'
        f' always-full on-demand</text><text transform="translate(22 {HEIGHT / 2:.0f}) rotate(-90)"'
        ' text-anchor="middle">share of work lost (lower is better)</text>'
    )
    for row, share in zip(rows, lost, strict=True):
        x, y = across(row.cost_share), up(share)
        colour = next((c for name, c in COLOURS.items() if row.policy.startswith(name)), OTHER)
        left = x > WIDTH * 0.7
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{colour}"/>'
            f'<text x="{x + (-9 if left else 9):.1f}" y="{y + 4:.1f}" fill="{colour}"'
            f' text-anchor="{"end" if left else "start"}">{escape(row.policy)}</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"
