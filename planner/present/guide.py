"""Guide as sections: its five steps, and the decision tree behind them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from planner.engine.procurement.guide import Guide
from planner.present.cells import Paragraph, Points, Section, text_table

TITLES = {
    "profile": "1. Profile",
    "bottleneck": "2. Bottleneck",
    "right-size": "3. Right size",
    "where": "4. Where",
    "commit": "5. Commit",
}


class Question(msgspec.Struct, frozen=True):
    """One of the five questions: the key of `Answers` that it fills, and its default."""

    key: str
    words: str
    usual: float | str


TASK = Question("task", "What do you want to do?", "serve")
MODEL = Question("model", "Which model? A name, a config.json, or a Hugging Face id", "llama-3.1-8b")
AMOUNTS: Mapping[str, tuple[Question, ...]] = {
    "serve": (
        Question("daily_users", "How many people use it per day?", 1000),
        Question("request_rate_per_s", "How many requests per second arrive in the busiest hour?", 1.0),
    ),
    "generate": (Question("requests", "How many requests are there in all?", 100_000),),
    "prefill": (Question("requests", "How many prompts are there in all?", 100_000),),
    "train": (Question("train_tokens", "How many tokens should it train on?", 1e9),),
    "finetune": (Question("train_tokens", "How many tokens should it train on?", 1e7),),
}
"""Task -> questions about its amount, the most common one first."""
_DEADLINE = Question("deadline_h", "In how many hours must it be done?", 168.0)
LIMITS: Mapping[str, tuple[Question, ...]] = dict.fromkeys(AMOUNTS, (_DEADLINE,)) | {
    "serve": (
        Question("p95_ttft_s", "Maximum seconds to the first token (95th percentile)?", 2.0),
        Question("p95_request_s", "Maximum seconds to the complete answer (95th percentile)?", 10.0),
    )
}
"""Task -> questions about its limit, the most common one first."""
MONTHS = Question("months", "For how many months do you need it?", 12)


def guide_sections(guide: Guide) -> list[Section]:
    """One section per step, then the tree."""
    steps = [Section(TITLES[step.name], [Paragraph(step.answer, "strong"), Points(step.reasons)]) for step in guide.steps]
    return [*steps, tree_section(guide)] if guide.tree else steps


def tree_section(guide: Guide) -> Section:
    """Table of the questions of the tree with answers and the numbers behind them."""
    rows = [(branch.question, branch.answer, branch.reason) for branch in guide.tree]
    return Section("The path through the decision tree", [text_table(("question", "answer", "because"), rows)])
