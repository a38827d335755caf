"""A plan as the text of a file, and the command line that gives the same plan."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from planner.durable import WriteResult, write_whole
from planner.text import escaped_json
from widgets.state.state_files import state_folder

if TYPE_CHECKING:
    from planner.ceilings_cache import BasisChoice
    from planner.engine.answers.plan import Plan, PlanRow
    from planner.present.command_line import PlanCommand
    from planner.session import Session
    from planner.workload.presets import Preset
    from planner.workload.tasks import Workload


class FileFormat(NamedTuple):
    """A form in which a plan can be written."""

    id: Literal["json", "csv", "markdown", "report", "page", "svg"]
    label: str
    detail: str
    suffix: str


FORMATS = (
    FileFormat("json", "JSON", "everything: inputs, rows, ranges, reasons", "json"),
    FileFormat("csv", "CSV", "the rows, SI units", "csv"),
    FileFormat("markdown", "Markdown", "the rows as a table", "md"),
    FileFormat("report", "Report", "the decision with its reasons, Markdown", "report.md"),
    FileFormat("page", "HTML", "the decision with its reasons, a page for a browser", "report.html"),
    FileFormat("svg", "SVG", "this screen", "svg"),
)
REPORTS = ("report", "page")
"""Formats of the decision with its reasons."""


def plan_text(plan: Plan, form: FileFormat) -> str:
    """The plan as the command line prints it with --json, --csv or --markdown."""
    if form.id == "json":
        import msgspec

        return escaped_json(msgspec.json.format(msgspec.json.encode(plan), indent=1)).decode() + "\n"
    if form.id == "csv":
        from planner.present.files.csv_text import plan_csv

        return plan_csv(plan)
    from planner.present.files.document import markdown_table
    from planner.present.plan import plan_table

    return markdown_table(plan_table(plan)) + "\n"


def report_text(session: Session, workload: Workload, plan: Plan, form: FileFormat, command: PlanCommand) -> str:
    """The decision that follows from `plan`, as `gpu-planner report` writes it; `command`: the command line of the plan."""
    from planner.present.files.decision import decide, sections
    from planner.present.files.document import as_html, as_markdown

    decision = decide(session, workload, plan, command)
    return (as_html if form.id == "page" else as_markdown)(sections(decision))


def row_text(row: PlanRow, task: Mapping[str, Any]) -> str:
    """A row in one line of plain text, for the clipboard."""
    from planner.present.cells import BASIS_WORDS, figure_text
    from planner.present.names import device_name
    from planner.present.plan import memory_share, rate_text, throughput, throughput_label
    from planner.units import percent_text, usd_text

    answer, layout = row.answer, row.answer.layout
    parts = [
        f"#{row.rank}" if row.rank is not None else row.verdict,
        f"{answer.gpus} × {device_name(row.gpu)}",
        layout.text if layout else "",
        f"memory {percent_text(memory_share(answer))}",
        f"{figure_text(throughput(answer), rate_text)} {throughput_label(task)} ({BASIS_WORDS[row.basis]})",
        f"{figure_text(answer.usd_per_million_tokens, usd_text)} $/M tokens" if answer.usd_per_million_tokens else "",
        f"{figure_text(row.job_usd, usd_text)} $ for the job" if row.job_usd else "",
        f"{usd_text(row.usd_per_h.value)} $/h" if row.usd_per_h else "",
        f"{row.offer.provider} {row.offer.instance} ({row.offer.as_of})" if row.offer else "",
        row.why,
    ]
    return " · ".join(part for part in parts if part)


def write_export(text: str, name: str, suffix: str, state: Path | None, when: dt.datetime) -> WriteResult:
    """Write into the working directory, or the state folder when that is not writable."""
    here = Path.cwd()
    target = here if os.access(here, os.W_OK) else state_folder(state)
    return write_whole(target / f"{name}-{when:%Y%m%d-%H%M%S}.{suffix}", text)


def plan_command(preset: Preset, as_loaded: Mapping[str, Any], now: Mapping[str, Any], basis: BasisChoice) -> PlanCommand:
    """`gpu-planner plan …` with every change made to the preset since it was loaded."""
    from planner.present.command_line import PlanCommand, spelled
    from planner.workload.changes import leaves

    before, after = dict(leaves(as_loaded)), dict(leaves(now))
    left_out = {"title", "description"} - after.keys()  # plan leaves them out, too
    changed = [
        key for key in sorted((before.keys() | after.keys()) - left_out) if key not in after or before.get(key, ...) != after[key]
    ]
    settings = [text for key in changed for text in spelled(key, after.get(key))]
    return PlanCommand(preset.name if preset.origin != "file" else str(preset.path), settings, basis=basis)
