"""Imported results as text: measured values with their predictions, and explanations of differences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from planner.present.cells import Paragraph, Points, Section, figure_text, text_table
from planner.units import UNKNOWN, change_text, digits, duration_text

if TYPE_CHECKING:
    from planner.observe.results.compared import ComparedValue, Explanation

NAMES = {
    "ttft_s": "time to first token",
    "tpot_s": "time per output token",
    "request_s": "time of a request",
    "prefill_s": "time of the prompt",
    "output_tokens_per_s": "output tokens/s",
    "decode_tokens_per_s": "tokens/s of a sequence",
    "requests_per_s": "requests/s",
}
MAIN = "output_tokens_per_s"
"""Values that the sentence may describe, in order of preference."""
HEADS = ("value", "predicted", "seen", "off", "range")


def result_section(
    title: str, found: Sequence[ComparedValue], why: Sequence[Explanation], *, refused: str = "", notes: Iterable[str] = ()
) -> Section:
    """Section of one result: its values, a sentence about the main one, explanations, remarks. `refused`: why there is no prediction."""
    parts: list[Paragraph | Points | object] = [Paragraph(refused or sentence(found))]
    if not refused:
        parts.append(text_table(HEADS, [_row(one) for one in found], HEADS[1:4]))
    if why:
        parts += [
            Paragraph("What would explain it:"),
            Points(
                [
                    f"{one.setting}={one.value} would give {value_text(one.quantity, one.predicted)}: {change_text(one.off)}."
                    for one in why
                ]
            ),
        ]
    listed = list(notes)
    if listed:
        parts.append(Points(listed))
    return Section(title, parts)  # type: ignore[arg-type]  # every one is a part


def seen_section(title: str, seen: Mapping[Any, float], notes: Iterable[str] = ()) -> Section:
    """Section of one result without a prediction."""
    rows = [(NAMES.get(name, name), value_text(name, value, unit=False)) for name, value in seen.items()]
    listed = list(notes)
    return Section(title, [text_table(("value", "seen"), rows, ("seen",)), *([Points(listed)] if listed else [])])


def sentence(found: Sequence[ComparedValue]) -> str:
    """Sentence on the first predicted value, such as 'Predicted 4,100 output tokens/s, you got 3,560: -13 %, inside the range'."""
    known = [one for one in found if one.predicted is not None]
    main = next((one for one in known if one.quantity == MAIN), known[0] if known else None)
    if main is None or main.predicted is None or main.off is None:
        return "None of the measured values has a prediction."
    where = "inside" if main.inside else "outside"
    text = value_text(main.quantity, main.predicted.value)
    return (
        f"Predicted {text}, you got {value_text(main.quantity, main.seen, unit=False)}: {change_text(main.off)}, {where} the range."
    )


def value_text(quantity: str, value: float, *, unit: bool = True) -> str:
    """A value with its unit: '4,100 output tokens/s', '58 ms time to first token'."""
    if quantity.endswith("_per_s"):
        return f"{digits(value)} {NAMES.get(quantity, quantity)}" if unit else digits(value)
    return f"{duration_text(value)} {NAMES.get(quantity, quantity)}" if unit else duration_text(value)


def _row(one: ComparedValue) -> tuple[str, ...]:
    def text(value: float) -> str:
        return value_text(one.quantity, value, unit=False)

    name = NAMES.get(one.quantity, one.quantity)
    if one.predicted is None or one.off is None:
        return (name, UNKNOWN, text(one.seen), UNKNOWN, "not predicted")
    inside = "inside" if one.inside else "outside"
    low, high = text(one.predicted.low), text(one.predicted.high)
    return (name, figure_text(one.predicted, text), text(one.seen), change_text(one.off), f"{inside} {low} to {high}")
