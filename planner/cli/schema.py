"""`gpu-planner schema`: the JSON Schema of each thing that goes in or comes out, made from the code."""

from __future__ import annotations

import importlib
import json

import click

SUBJECTS = {
    "request": ("planner.workload.tasks", "Request"),
    "answer": ("planner.engine.answers.answer", "Answer"),
    "plan": ("planner.engine.answers.plan", "Plan"),
    "preset": ("planner.workload.tasks", "Workload"),
    "measurement": ("planner.hardware.measurements.measurement", "Measurement"),
    "study": ("planner.engine.answers.study", "StudyAnswer"),
    "snapshot": ("planner.observe.snapshot", "Snapshot"),
    "advice": ("planner.engine.advice.advice", "Advice"),
}
"""Subject -> module and struct; only the chosen one is loaded."""


@click.command()
@click.argument("subject", type=click.Choice(tuple(SUBJECTS)))
def schema(subject: str) -> int:
    """Print the JSON Schema of SUBJECT.

    request: a line of `estimate`; answer: what it says; plan: what `plan --json` says; preset: a workload file;
    measurement: one point of a benchmark; study: what `study --json` says;
    snapshot: a line of `watch --json`; advice: what `rightsize --json` says.
    """
    import msgspec

    module, name = SUBJECTS[subject]
    described = getattr(importlib.import_module(module), name)
    document = {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(described)}
    click.echo(json.dumps(document, indent=2))
    return 0
