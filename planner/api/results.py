"""Answers as programs and notebooks take them: attributes, plain records, data frames, and a table where they are displayed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Generic, TypeVar

import msgspec

from planner.engine.answers.answer import Answer
from planner.engine.answers.memory import MemoryDetail, MemoryItem
from planner.engine.answers.plan import Plan, PlanRow
from planner.engine.answers.replay import Replay, ReplayHour
from planner.engine.answers.study import StudyAnswer, StudyCurve
from planner.present.cells import Paragraph, Section, text_table
from planner.present.files.csv_text import PlainColumns, plan_lines, study_lines
from planner.present.plan import heading, plan_table, rate_text, throughput
from planner.units import UNKNOWN, bytes_text
from planner.workload.changes import leaves
from planner.workload.traffic.summary import Traffic, TrafficHour
from planner.workload.traffic.trace import Trace

A = TypeVar("A", bound=msgspec.Struct)


class Result(Generic[A]):
    """An answer. Attributes that a subclass does not have are those of the `answer` itself, as `gpu-planner schema` lists them."""

    def __init__(self, answer: A) -> None:
        self.answer = answer

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # asked for by copy, pickle and notebooks before there is an answer
            raise AttributeError(name)
        return getattr(self.answer, name)

    def _lines(self) -> PlainColumns:
        raise NotImplementedError

    def _sections(self) -> Sequence[Section]:
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """The whole answer as plain dicts and lists, as `--json` prints it."""
        found: dict[str, Any] = msgspec.to_builtins(self.answer)
        return found

    def to_json(self) -> str:
        """The whole answer as JSON."""
        return msgspec.json.encode(self.answer).decode()

    def records(self) -> list[dict[str, Any]]:
        """A dict a row, in SI units; every figure has its value, low, high and basis. Unknown is None."""
        heads, lines = self._lines()
        return [dict(zip(heads, line, strict=True)) for line in lines]

    def to_pandas(self) -> Any:
        """Records as a `pandas.DataFrame`; raises ImportError where pandas is not installed."""
        import pandas as pd

        heads, lines = self._lines()
        return pd.DataFrame([list(line) for line in lines], columns=list(heads))

    def to_polars(self) -> Any:
        """Records as a `polars.DataFrame`; raises ImportError where Polars is not installed."""
        import polars as pl

        heads, lines = self._lines()
        return pl.DataFrame([list(line) for line in lines], schema=list(heads), orient="row", infer_schema_length=None)

    def __repr__(self) -> str:
        from planner.present.files.document import as_markdown

        return as_markdown(self._sections()).rstrip()

    def _repr_html_(self) -> str:
        """Answer in a notebook."""
        from planner.present.files.document import html_fragment

        return html_fragment(self._sections())


class PlanResult(Result[Plan]):
    """A ranked plan; iterates over its rows, best first."""

    def __iter__(self) -> Iterator[PlanRow]:
        return iter(self.answer.rows)

    def __len__(self) -> int:
        return len(self.answer.rows)

    def __getitem__(self, place: int) -> PlanRow:
        return self.answer.rows[place]

    @property
    def best(self) -> PlanRow | None:
        """Row that ranks first; None if nothing is a solution."""
        return self.answer.best

    def _lines(self) -> PlainColumns:
        return plan_lines(self.answer)

    def _sections(self) -> Sequence[Section]:
        title, *rest = heading(self.answer)
        notes = [Paragraph(note) for note in self.answer.notes]
        return [Section(title, [*([Paragraph(" · ".join(rest))] if rest else []), plan_table(self.answer), *notes])]


class StudyResult(Result[StudyAnswer]):
    """A study of compute per dollar; iterates over its curves, a GPU each."""

    def __iter__(self) -> Iterator[StudyCurve]:
        return iter(self.answer.curves)

    def _lines(self) -> PlainColumns:
        return study_lines(self.answer)

    def _sections(self) -> Sequence[Section]:
        from planner.present.study import study_sections

        return study_sections(self.answer)

    def to_svg(self) -> str:
        """Both charts of the study."""
        from planner.present.files.study_svg import study_svg

        return study_svg(self.answer)


class MemoryResult(Result[MemoryDetail]):
    """Memory of the fullest GPU of one candidate at its peak; iterates over its items."""

    def __init__(self, answer: MemoryDetail, row: PlanRow) -> None:
        super().__init__(answer)
        self.row = row
        """Candidate."""

    def __iter__(self) -> Iterator[MemoryItem]:
        return iter(self.answer.items)

    def _lines(self) -> PlainColumns:
        heads = ("component", "name", "bytes", "formula", "source")
        return PlainColumns(heads, [[getattr(item, head) for head in heads] for item in self.answer.items])

    def _sections(self) -> Sequence[Section]:
        from planner.present.memory import memory_section

        return [memory_section(self.row, self.answer)]


class TrafficResult(Result[Traffic]):
    """Summary of recorded requests; iterates over the hours."""

    def __init__(self, answer: Traffic, trace: Trace | None) -> None:
        super().__init__(answer)
        self.trace = trace
        """Requests one by one; None for a page of metrics."""

    def __iter__(self) -> Iterator[TrafficHour]:
        return iter(self.answer.hours)

    def _lines(self) -> PlainColumns:
        heads = ("begins_s", "clock", "requests", "covered_s", "rate_per_s", "input_tokens", "output_tokens")
        return PlainColumns(heads, [[getattr(hour, head) for head in heads] for hour in self.answer.hours])

    def _sections(self) -> Sequence[Section]:
        from planner.present.traffic import traffic_sections

        return traffic_sections(self.answer)


class ReplayResult(Result[Replay]):
    """A replayed trace; iterates over the hours."""

    def __iter__(self) -> Iterator[ReplayHour]:
        return iter(self.answer.hours)

    def _lines(self) -> PlainColumns:
        facts = ("begins_s", "clock", "requests", "covered_s", "rate_per_s", "replicas_needed")
        latencies = [(name, share) for name in ("ttft_s", "tpot_s", "request_s") for share in ("p50", "p95", "p99")]

        def cells(hour: ReplayHour) -> list[Any]:
            figures = [getattr(getattr(hour, name), share, None) for name, share in latencies]
            return [*(getattr(hour, fact) for fact in facts), *(figure and figure.value for figure in figures)]

        return PlainColumns([*facts, *("_".join(pair) for pair in latencies)], [cells(hour) for hour in self.answer.hours])

    def _sections(self) -> Sequence[Section]:
        from planner.present.traffic import replay_sections

        return replay_sections(self.answer)


class Answers(msgspec.Struct, frozen=True):
    """Answers of `estimate`, in the order of their requests."""

    answers: list[Any]


class EstimateResult(Result[Answers]):
    """Candidates given in full, each with its answer; iterates over the answers in order."""

    def __iter__(self) -> Iterator[Answer]:
        return iter(self.answer.answers)

    def __len__(self) -> int:
        return len(self.answer.answers)

    def __getitem__(self, place: int) -> Answer:
        found: Answer = self.answer.answers[place]
        return found

    @cached_property
    def _flat(self) -> list[dict[str, Any]]:
        return [dict(leaves(msgspec.to_builtins(answer))) for answer in self.answer.answers]

    def _lines(self) -> PlainColumns:
        heads = list(dict.fromkeys(name for line in self._flat for name in line))
        return PlainColumns(heads, [[line.get(name) for name in heads] for line in self._flat])

    def _sections(self) -> Sequence[Section]:
        rows = []
        for place, one in enumerate(self):
            memory, rate = one.memory_bytes, throughput(one)
            total = bytes_text(memory.total.value) if memory else UNKNOWN
            layout = one.layout.text if one.layout else UNKNOWN
            name = str(place if one.id is None else one.id)
            rows.append((name, layout, total, rate_text(rate.value if rate else None), one.reason or one.bottleneck or ""))
        heads = ("id", "layout", "memory", "tokens/s", "why")
        return [Section("Estimates", [text_table(heads, rows, heads[2:4])])]
