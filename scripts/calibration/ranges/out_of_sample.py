"""Errors and coverage on held-out data (a source, a generation of GPUs, a class of architectures), as tables and a diagram."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from fitting import markdown_table

from planner.workload.published.spreads import KINDS
from ranges.residual import SHARES, interval_scores, mean_of_sources, widths
from ranges.residuals import LeftOut
from ranges.unseen import UnseenClasses

LEAST_OF_A_CLASS = 30
"""Smallest number of values of a class with a row of its own."""
SIDE, MARGIN = 320, 48
"""Size of the diagram's square and of the room for its labels, in pixels."""


def kinds_table(found: Sequence[LeftOut]) -> str:
    """A row for each kind: error by value and by source; coverage with a source, GPU generation, model shape or engine left out."""
    rows = []
    for group, half in ((way.residuals, way.half_widths()) for way in found):
        unseen = UnseenClasses(group)
        ways = unseen.inside()
        offs = np.array([one.reach for one in group])
        errors = np.abs(np.expm1([-one.off for one in group]))
        for kind in KINDS:
            own = np.array([one.kind == kind and not one.asked for one in group])
            if not own.any():
                continue
            of_kind = [one for one in group if one.kind == kind and not one.asked]
            medians = [np.median(errors[own][[one.source == name for one in of_kind]]) for name in {one.source for one in of_kind}]
            inside = (np.abs(offs[own]) <= half[own]) * 1.0
            score = mean_of_sources(of_kind, interval_scores(of_kind, half[own]))
            rows.append(
                [kind, f"{len(of_kind):,}", str(len(medians)), f"{np.median(errors[own]):.1%}", f"{np.mean(medians):.1%}"]
                + [f"{inside.mean():.0%}", f"{mean_of_sources(of_kind, inside):.0%}"]
                + [f"{held[judged & own].mean():.0%}" if (judged & own).any() else "—" for judged, held in ways]
                + [f"× {math.exp(float(np.median(widths(of_kind, half[own])))):.2g}", f"{score:.2f}"]
            )
    heads = [
        "kind",
        "n",
        "sources",
        "median",
        "of sources",
        "inside",
        "by source",
        "generation out",
        "class out",
        "engine out",
        "width",
        "score",
    ]
    return markdown_table(heads, rows) + "\n"


def classes_table(found: Sequence[LeftOut]) -> str:
    """Coverage with each source left out, by every fact that enough values have."""
    rows = []
    for group, half in ((way.residuals, way.half_widths()) for way in found):
        inside, wide = np.abs([one.reach for one in group]) <= half, np.exp(widths(group, half))
        for name in sorted({name for one in group for name in one.facts}):
            own = np.array([one.facts.get(name, 0.0) > 0 and not one.asked for one in group])
            sources = len({one.source for one, counts in zip(group, own, strict=True) if counts})
            if LEAST_OF_A_CLASS <= own.sum() < len(group):
                what = "memory" if KINDS[group[0].kind] == "memory" else "time"
                rows.append(
                    [name, what, f"{own.sum():,}", str(sources), f"{inside[own].mean():.0%}", f"× {np.median(wide[own]):.2g}"]
                )
    return markdown_table(["class", "of", "n", "sources", "inside", "width"], rows, text_columns=2) + "\n"


def less_said_table(found: Sequence[LeftOut]) -> str:
    """Coverage with each source left out, for requests without the engine's release, or without the engine."""
    rows = []
    for group, half in ((way.residuals, way.half_widths()) for way in found):
        inside, wide = np.abs([one.reach for one in group]) <= half, np.exp(widths(group, half))
        for kind in KINDS:
            for unsaid in ("release", "program", "engine"):
                own = np.array([one.kind == kind and one.asked == unsaid for one in group])
                if own.sum() >= LEAST_OF_A_CLASS:
                    of_kind = [one for one, counts in zip(group, own, strict=True) if counts]
                    median = np.median([abs(math.expm1(-one.off)) for one in of_kind])
                    shares = [f"{inside[own].mean():.0%}", f"{mean_of_sources(of_kind, inside[own] * 1.0):.0%}"]
                    rows.append(
                        [kind, f"the {unsaid}", f"{own.sum():,}", f"{median:.1%}", *shares, f"× {np.median(wide[own]):.2g}"]
                    )
    return markdown_table(["kind", "not said", "n", "median", "inside", "by source", "width"], rows, text_columns=2) + "\n"


def observed(found: Sequence[LeftOut]) -> list[tuple[float, float, float]]:
    """(nominal share, observed over values, observed over sources), every source left out in turn."""
    every = [one for way in found for one in way.residuals]
    stated = np.array([not one.asked for one in every])
    residuals = [one for one in every if not one.asked]
    offs, points = np.abs([one.reach for one in residuals]), []
    for share in SHARES:
        inside = np.where(offs <= np.concatenate([way.half_widths(share) for way in found])[stated], 1.0, 0.0)
        points.append((share, float(inside.mean()), mean_of_sources(residuals, inside)))
    return points


def reliability_table(points: Sequence[tuple[float, float, float]]) -> str:
    """The points of the diagram as text."""
    rows = [[f"{nominal:.0%}", f"{values:.0%}", f"{sources:.0%}"] for nominal, values, sources in points]
    return markdown_table(["nominal", "values inside", "mean of sources"], rows, text_columns=0) + "\n"


def reliability_svg(points: Sequence[tuple[float, float, float]]) -> str:
    """The diagram: nominal share across, observed share up, the diagonal where they agree."""

    def at(across: float, up: float) -> str:
        return f"{MARGIN + (across - 0.5) * 2 * SIDE:.1f},{MARGIN / 2 + (1 - (up - 0.5) * 2) * SIDE:.1f}"

    def line(ends: tuple[str, str], style: str) -> str:
        (x1, y1), (x2, y2) = (end.split(",") for end in ends)
        return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" {style}/>'

    parts = [line((at(0.5, 0.5), at(1, 1)), 'stroke="#888" stroke-dasharray="4 4"')]
    for mark in (0.5, 0.6, 0.7, 0.8, 0.9, 1.0):
        parts.append(line((at(mark, 0.5), at(mark, 1)), 'stroke="#ddd"') + line((at(0.5, mark), at(1, mark)), 'stroke="#ddd"'))
        (x, _), (_, y) = at(mark, 0.5).split(","), at(0.5, mark).split(",")
        parts.append(f'<text x="{x}" y="{SIDE + MARGIN * 0.85}" text-anchor="middle">{mark:.0%}</text>')
        parts.append(f'<text x="{MARGIN - 6}" y="{y}" text-anchor="end" dominant-baseline="middle">{mark:.0%}</text>')
    for name, colour, place in (("values", "#1f6feb", 1), ("mean of sources", "#d1242f", 2)):
        dots = [at(point[0], max(0.5, point[place])) for point in points]
        parts += [line(ends, f'stroke="{colour}" stroke-width="2"') for ends in pairwise(dots)]
        parts.append(f'<text x="{MARGIN + 10}" y="{MARGIN / 2 + 18 * place}" fill="{colour}">{name}</text>')
    width, height = SIDE + MARGIN + 24, SIDE + MARGIN * 1.5
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    title = "<title>Share of published values inside a range, by the share it should hold</title>"
    return "\n".join([f'{opening} font-family="sans-serif" font-size="12">', title, *parts, "</svg>", ""])
