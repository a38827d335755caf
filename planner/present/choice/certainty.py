"""Certainty of the first row of a plan: its comparison with the next rows, and its sensitivity to inputs."""

from __future__ import annotations

from planner.engine.answers.plan import Flip, Plan, PlanRow
from planner.present.choice.ranked_by import ranked_by
from planner.units import change_text, count_text, digits, percent_text, usd_text

BETTER = {"cheapest": "cheaper", "flop-per-usd": "more compute per dollar", "fastest": "faster"}
"""Objective -> word that compares the first row; objectives without ranges are absent."""
COIN_TOSS, CLOSE, COMPARED = 0.65, "≈", 3
"""Probability that the first row is better, below which two rows are marked as close; number of rows it is compared with."""
BY_FORMULA = "by formula"
"""Value of `assumed.percentiles` if no request was simulated."""
LABELS = {
    "input_tokens": "input tokens",
    "output_tokens": "output tokens",
    "request_rate_per_s": "requests a second",
    "concurrency": "requests at once",
    "sequence": "tokens a sequence",
    "global_batch": "sequences a step",
    "micro_batch": "sequences a GPU",
    "weight_dtype": "weights in",
    "dtype": "products in",
}
"""Key of a workload -> its words in a sentence."""


def is_close(row: PlanRow) -> bool:
    """True if it is uncertain that the first row is better than this one."""
    return row.probability_first_better is not None and row.probability_first_better < COIN_TOSS


def standing(plan: Plan) -> str:
    """Probability that the first row is better than the next ones on other GPUs or counts; empty if there are none."""
    better = BETTER.get(str(plan.task.get("objective", "cheapest")))
    rows = [row for row in plan.rows if row.rank]
    seen, words = {_place(row) for row in rows[:1]}, list[str]()
    for row in rows[1:]:
        if row.probability_first_better is None or _place(row) in seen:
            continue
        seen.add(_place(row))
        words.append(f"than {row.rank} {CLOSE if is_close(row) else ''}{percent_text(row.probability_first_better)}")
    if better is None or not words:
        return ""
    shown = words[:COMPARED]
    toss = f"; {CLOSE} a coin toss" if any(CLOSE in word for word in shown) else ""
    return f"chance that 1 is really {better}{ranked_by(plan).per}: {', '.join(shown)}{toss}"


def simulated_rows(plan: Plan) -> str:
    """Note on which rows of a service were simulated if others were computed by formula; empty if all were computed alike."""
    made = {row.rank: row.answer.assumed.get("percentiles", "") for row in plan.rows if row.rank}
    formula = [rank for rank, method in made.items() if method == BY_FORMULA]
    simulated = [str(rank) for rank, method in made.items() if method and method != BY_FORMULA]
    if not formula or not simulated:
        return ""
    return (
        f"simulated: {', '.join(simulated)}; the others by formula: --gpu NAME simulates one, which may need a replica more or less"
    )


def _place(row: PlanRow) -> tuple[str, int | None]:
    return row.gpu, row.answer.layout.gpus if row.answer.layout else None


def sensitivity(plan: Plan) -> list[str]:
    """A line for each input whose smallest change puts another GPU first: 'H200 SXM with output tokens 238 (+19 %)'."""
    return [_flip(flip) for flip in plan.flips]


def _flip(flip: Flip) -> str:
    if flip.key == "usd_per_h":
        return f"{flip.gpu} if the first costs {usd_text(float(flip.value))} $/h ({change_text((flip.factor or 1.0) - 1)})"
    label = LABELS.get(flip.key, flip.key)
    if flip.factor is None:
        return f"{flip.gpu} with {label} {flip.value}"
    amount = float(flip.value)
    return f"{flip.gpu} with {label} {count_text(amount) if amount >= 1e6 else digits(amount)} ({change_text(flip.factor - 1)})"
