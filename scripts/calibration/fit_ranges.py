"""Fits the ranges to published measurements with each source left out in turn, and writes presets/spreads/published.toml.

    scripts/calibration/fit_ranges.py FOLDER [--out FILE] [--choose]

FOLDER holds published measurements (docs/evidence/validation.md); scripts/calibration/ranges/residuals.py says the method. The predictions are those of the
planner as it stands: run it again whenever they change. Printed: per kind, the coverage, the median width and the interval score with each
source left out. With --choose nothing is written: it prints how the ranges score by what kinds, facts and engines borrow.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
from fitting import ROOT, experiments_of, options_of, plain_session
from msgspec.structs import replace
from ranges.residual import MEMORY_SKEW, SHARES, UNSAID, Residual, interval_scores, mean_of_sources, shared_causes, widths
from ranges.residuals import BY_LOAD, LABELS, LOAD, Design, LeftOut
from ranges.unseen import SAME_WORK, UnseenClasses, choose, sources_left_out

from planner.engine.answers.answer import Answer
from planner.engine.evaluate.chosen_rows import names_of
from planner.engine.evaluate.ranges import HOST_OPEN, LENGTHS, NETWORK, SHAPES
from planner.engine.explain.open_waits import APART, COLD, TOGETHER
from planner.engine.explain.range_ends import FP16_SUMS_OPEN, SCORES_OPEN, SLOWER_BEFORE, TF32_OPEN
from planner.engine.job.engines.catalogue import STAND_INS
from planner.engine.memory.total import GROWING, MAY_DIVIDE, MAY_KEEP, SEVERAL_THAT_TRAIN, TRANSIENT
from planner.engine.validation import Comparison, compared
from planner.session import Session
from planner.workload.published.experiments import Experiment
from planner.workload.published.spreads import ENGINE_OPEN, KINDS, OF_A_BATCH, PROGRAM_OPEN
from planner.workload.tasks import trains

OUT = ROOT / "presets" / "spreads" / "published.toml"
LEAST_SLOPE = 0.0005
"""Size of a logarithm below which it is not written."""
MEMORY_FACTS = (TRANSIENT, SEVERAL_THAT_TRAIN, "mixture of experts", "weights below 16 bit")
TRAINING_FACTS = (*MEMORY_FACTS, ENGINE_OPEN, PROGRAM_OPEN)
"""Facts for which memory in training has a slope or a factor."""
NOT_OF_TIMES = (
    TRANSIENT, GROWING, MAY_DIVIDE, MAY_KEEP, PROGRAM_OPEN, TF32_OPEN, FP16_SUMS_OPEN, SCORES_OPEN, SLOWER_BEFORE, APART, TOGETHER, COLD,
    *(name for kind in KINDS for name in names_of(kind)),
)  # fmt: skip
"""Facts that only concern memory, and those that move one end of a range by a formula."""
RATES = frozenset({"decode", "batch throughput", "serving throughput"})
"""Kinds of comparisons of generation that are rates; the others are times."""
TTFT = "time to first token"
WAITING = (TTFT, "request time")
"""Kinds whose range may reach up by a cold start."""


def residuals_of(session: Session, folder: Path) -> list[Residual]:
    """The residual of every predicted value; for times and for memory in training also those of requests that state less."""
    found = list[Residual]()
    for unsaid, experiments in asked_with_less(experiments_of(session, folder).experiments).items():
        answers = session.estimate([experiment.request for experiment in experiments], basis="spec")
        for experiment, answer in zip(experiments, answers, strict=True):
            if not isinstance(answer, Answer) or not may_have_run(experiment, answer):
                continue
            for one in compared([experiment], [answer]):
                residual = residual_of(experiment, answer, one, session.gpus.find(one.gpu).architecture)
                if residual is None:
                    continue
                memory = KINDS[residual.kind] == "memory"
                less = (
                    ("program", "engine") if memory and trains(experiment.request.task) else () if memory else ("release", "engine")
                )
                if not unsaid or unsaid in less:
                    found.append(dataclasses.replace(residual, asked=unsaid))
    return found


def may_have_run(experiment: Experiment, answer: Answer) -> bool:
    """Whether it can have run as its source states.

    Not a service whose weights alone are more than the GPUs hold (one page of a 106B model in BF16 on two H100), nor sequences at once
    whose cache is, most of which wait (64 of 4,096 tokens, 0.5 MB each, on an A100).
    """
    memory, request = answer.memory_bytes, experiment.request
    if memory is None or trains(request.task):
        return True
    at_once = request.task != "serve" and (request.batch or 1) > 1
    return memory.weights + memory.kv_cache * at_once <= memory.capacity or not (at_once or request.task == "serve")


def asked_with_less(experiments: Sequence[Experiment]) -> dict[str, list[Experiment]]:
    """The experiments as stated (""), and with less: without the engine's release, by a program's library, without any engine.

    The engine stays for Transformers, PyTorch and Megatron generating: an open engine means one made for serving.
    """
    asked: dict[str, list[Experiment]] = {"": list(experiments), "release": [], "program": [], "engine": []}
    for experiment in experiments:
        name, at, release = (experiment.request.engine or "").partition("@")
        training = trains(experiment.request.task)
        library = STAND_INS[name].engine if training and name in STAND_INS else ""
        less = (("release", name, release), ("program", library + at + release, library), ("engine", None, name))
        for unsaid, engine, said in less:
            plain = unsaid == "engine" and name in ("transformers", "torch", "megatron") and not training
            if said and not plain:
                request = msgspec.structs.replace(experiment.request, engine=engine)
                if unsaid == "engine" and request.weight_dtype == "int8":  # which means bitsandbytes where no engine is named
                    request = msgspec.structs.replace(request, weight_dtype="w8a16")
                if unsaid == "engine" and request.sharding in {"zero1", "zero2"}:  # which the program decides
                    request = msgspec.structs.replace(request, sharding="none")
                asked[unsaid].append(replace(experiment, request=request))
    return asked


def residual_of(experiment: Experiment, answer: Answer, one: Comparison, architecture: str = "") -> Residual | None:
    """The residual of one value, or of the whole memory of a device; None without a prediction. `architecture`: of the GPU."""
    if one.predicted is None or one.kind == "fits" or one.predicted <= 0:
        return None
    kind = one.kind if experiment.request.task == "serve" else OF_A_BATCH.get(one.kind, one.kind)
    memory = KINDS[kind] == "memory"
    facts = {name: amount for name, amount in answer.evidence.items() if name not in (NETWORK, HOST_OPEN)}
    if memory and trains(experiment.request.task):
        facts[SEVERAL_THAT_TRAIN] = facts.get("several GPUs", 0.0)
    of_memory = TRAINING_FACTS if trains(experiment.request.task) else MEMORY_FACTS
    facts = {name: amount for name, amount in facts.items() if (name in of_memory if memory else name not in NOT_OF_TIMES)}
    off = math.log((one.measured + one.part_bytes) / (one.predicted + one.part_bytes))
    if kind in WAITING and off > 0:  # the range reaches up to a cold start
        cold_s = math.expm1(answer.evidence.get(COLD, 0.0)) * one.predicted
        off = math.log(max(one.predicted, one.measured - cold_s) / one.predicted)
    network, host, lengths = (0.0 if memory else answer.evidence.get(name, 0.0) for name in (NETWORK, HOST_OPEN, LENGTHS))
    if kind == TTFT:
        lengths = math.hypot(lengths, answer.evidence.get(TOGETHER if off > 0 else APART, 0.0))
    classes = (architecture, SHAPES["mixture of experts" in answer.evidence], _serving_engine(kind, answer.evidence))
    down, slower = answer.evidence.get(MAY_DIVIDE, 0.0), answer.evidence.get(SLOWER_BEFORE, 0.0)
    up = max(answer.evidence.get(name, 0.0) for name in (MAY_KEEP, GROWING))
    if not memory:
        is_time = answer.step_s is not None and one.predicted == answer.step_s.value
        faster = answer.evidence.get(FP16_SUMS_OPEN, 0.0)
        down, up = (faster, slower) if is_time else (slower, faster)
        if not trains(experiment.request.task):
            faster, slower = (answer.evidence.get(name, 0.0) for name in names_of(kind))
            down, up = (slower, faster) if one.kind in RATES else (faster, slower)
    return Residual(kind, one.source, off, facts, math.hypot(network, host), lengths, one, classes, down, up)


def _serving_engine(kind: str, evidence: Mapping[str, float]) -> str:
    """The engine of a service; "" where none is named, and in fixed batches."""
    return next((name for name in evidence if name in LABELS), "") if KINDS[kind] == "service" else ""


def as_stated(residuals: Iterable[Residual]) -> list[Residual]:
    """The residuals of values that are predicted with everything that their sources state."""
    return [one for one in residuals if not one.asked]


def split(residuals: Sequence[Residual]) -> list[list[Residual]]:
    """The residuals of times and those of memory, which facts widen differently."""
    groups: list[list[Residual]] = [[], []]
    for one in residuals:
        groups[KINDS[one.kind] == "memory"].append(one)
    return groups


def document(residuals: Sequence[Residual], folder: str) -> str:
    """The file: half widths of kinds, slopes of facts and of engines, quantiles of all."""
    kinds, wider, ratios, unseen = dict[str, str](), dict[str, dict[str, float]](), [], 1.0
    for group in split(residuals):
        design, found = Design(group), sources_left_out(group)
        fitted = design.named(design.fit())
        ratios.append(found)
        if KINDS[group[0].kind] != "memory":
            unseen = UnseenClasses(group).factor()
        for kind, scale in fitted.kinds.items():
            own = as_stated(one for one in group if one.kind == kind)
            usual, less = (math.log(found.factor(kind, less=less)) for less in (False, True))
            slopes = {name: slope + (less - usual) * (name in UNSAID) for name, slope in fitted.slopes[kind].items()}
            if kind in BY_LOAD:
                slopes[LOAD] = math.log(found.factor(kind, at_rate=True)) - usual
            engines = ", ".join(f'"{name}" = {slope:.3f}' for name, slope in slopes.items() if abs(slope) >= LEAST_SLOPE)
            alike = (one for one in as_stated(group) if one.kind in (kind, SAME_WORK.get(kind)))
            of_services = None if KINDS[kind] == "service" else -1  # the last class is the engine of a service
            seen = ", ".join(f'"{name}"' for name in sorted({name for one in alike for name in one.classes[:of_services] if name}))
            memory = KINDS[kind] == "memory"
            kinds[kind] = (
                f"{{ half_width = {math.exp(scale + usual):.3g}, values = {len(own)}, sources = {len({one.source for one in own})}"
                + (f", engines = {{ {engines} }}" if engines else "")
                + (f", skew = {MEMORY_SKEW} }}" if memory else f", classes = [{seen}] }}")
            )
        for name, slope in fitted.facts.items():
            counts = wider.setdefault(name, {"sources": 0})
            counts["memory" if KINDS[group[0].kind] == "memory" else "times"] = round(slope, 3)
            counts["sources"] = max(counts["sources"], len({one.source for one in group if one.facts.get(name)}))
    today = dt.datetime.now(dt.UTC).date().isoformat()
    pairs = [(share, np.mean([one.shape(share) for one in ratios])) for share in SHARES]
    of_plan, of_gpu = shared_causes(as_stated(residuals))
    lines = [f'"{kind}" = {kinds[kind]}' for kind in KINDS if kind in kinds]
    facts = [
        f'"{name}" = {{ {", ".join(f"{key} = {value}" for key, value in sorted(counts.items()))} }}'
        for name, counts in sorted(wider.items())
    ]
    return "\n".join(
        [
            f"# Written by scripts/calibration/fit_ranges.py on {today}; the script says the method. Do not edit: run it again.",
            "# half_width: of the range of ln(measured / predicted) that should hold nine truths in ten where no fact makes it wider.",
            "# engines, wider: logarithm of the factor on it, for each unit of the fact.",
            "# skew: share of the half width by which the range reaches further up, and less far down.",
            "# classes: architectures, shapes of models and engines of services with published values.",
            "# unseen_class: factor on half widths of times and rates of another class.",
            "# shared: correlation of the errors of two candidates for one workload, on different GPUs and on one GPU.",
            "# quantiles: share of the truths, and the half width that holds it over that of 0.9.",
            f'source = "{len(as_stated(residuals)):,} published values of {len({one.source for one in residuals})} sources (folder {folder})"',
            f"retrieved = {today}",
            'method = "each source left out in turn; a source counts as one"',
            f"shared = {{ plan = {of_plan:.2g}, gpu = {of_gpu:.2g} }}",
            f"unseen_class = {unseen:.3g}",
            f"quantiles = [{', '.join(f'[{share}, {ratio:.3g}]' for share, ratio in pairs)}]",
            *("", "[kinds]", *lines, "", "[wider]", *facts, ""),
        ]
    )


def report(found: LeftOut) -> None:
    """Print coverage, width and interval score of each kind with each source left out, as stated and with less stated."""
    half = found.half_widths()
    inside, wide, scores = (
        np.abs([one.reach for one in found.residuals]) <= half,
        widths(found.residuals, half),
        interval_scores(found.residuals, half),
    )
    for kind, less in [(kind, less) for kind in KINDS for less in (False, True)]:
        own = np.array([one.kind == kind and bool(one.asked) == less for one in found.residuals])
        group = [one for one, counts in zip(found.residuals, own, strict=True) if counts]
        if not group:
            continue
        by_source, score = (mean_of_sources(group, column[own] * 1.0) for column in (inside, scores))
        print(
            f"{kind + (', less said' if less else ''):32} {len(group):5} values {len({one.source for one in group}):2} sources"
            f" | inside {inside[own].mean():4.0%}, by source {by_source:4.0%}, x{math.exp(float(np.median(wide[own]))):5.2f}, score {score:5.2f}"
        )


def main() -> None:
    """Fit, report and write."""
    options = options_of(__doc__)
    options.add_argument("--out", type=Path, default=OUT)
    options.add_argument("--choose", action="store_true")
    given = options.parse_args()
    residuals = residuals_of(plain_session(), given.folder)
    if given.choose:
        for group in split(residuals):
            choose(group)
        return
    for group in split(residuals):
        report(sources_left_out(group))
    given.out.write_text(document(residuals, given.folder.resolve().name), encoding="utf-8")
    print(given.out)


if __name__ == "__main__":
    main()
