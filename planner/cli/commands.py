"""The table of commands: each a module of its own, imported only when that command runs."""

from __future__ import annotations

from planner.cli.groups import LazyCommand

COMMANDS = {
    "plan": LazyCommand("planner.cli.plan.command:plan", "Rank GPUs, counts and layouts for one workload."),
    "report": LazyCommand("planner.cli.report:report", "Write the decision for one workload, with its reasons, as a file."),
    "estimate": LazyCommand(
        "planner.cli.estimate.command:estimate", "Evaluate fully given candidates: JSON lines in, JSON lines out."
    ),
    "fit": LazyCommand("planner.cli.decide.fit:fit", "List what given GPUs can run: model, precision, context, users."),
    "guide": LazyCommand(
        "planner.cli.decide.guide:guide", "Five questions to a decision: profile, bottleneck, size, where, commitment."
    ),
    "portfolio": LazyCommand(
        "planner.cli.decide.portfolio:portfolio", "Place several workloads on GPUs to own, commit to, and rent by the hour."
    ),
    "bench": LazyCommand("planner.cli.bench.command:bench", "Measure this machine; results are kept and used by plan."),
    "study": LazyCommand(
        "planner.cli.study:study", "Compute per dollar over model or batch sizes, and where the best GPU changes."
    ),
    "traffic": LazyCommand("planner.cli.traffic.command:traffic", "Summarise recorded requests, or make a preset of them."),
    "replay": LazyCommand("planner.cli.replay.command:replay", "Simulate serving a recorded trace, hour by hour."),
    "watch": LazyCommand("planner.cli.watch.command:watch", "Show telemetry of GPUs."),
    "rightsize": LazyCommand("planner.cli.watch.rightsize:rightsize", "Advise from telemetry, with what each change saves."),
    "gpus": LazyCommand("planner.cli.catalogue.gpus:gpus", "List GPUs, or show one."),
    "models": LazyCommand("planner.cli.catalogue.models:models", "List models, or show one."),
    "presets": LazyCommand("planner.cli.catalogue.presets:presets", "List workload presets, or show one."),
    "offers": LazyCommand("planner.cli.catalogue.offers:offers", "List prices, or show those of one GPU."),
    "ceilings": LazyCommand(
        "planner.cli.catalogue.ceilings:ceilings", "Show the rates assumed for a GPU, and what measuring changed."
    ),
    "measurements": LazyCommand(
        "planner.cli.measurements.command:measurements", "List, show, export, import or remove measurements."
    ),
    "predictions": LazyCommand(
        "planner.cli.predictions.command:predictions", "List predictions; record what was measured of them."
    ),
    "schema": LazyCommand("planner.cli.schema:schema", "Print the JSON Schema of what goes in and out."),
    "validate": LazyCommand(
        "planner.cli.validate.command:validate", "Compare predictions with published measurements and your own."
    ),
    "completion": LazyCommand("planner.cli.completion:completion", "Print the completion script of a shell."),
    "mcp": LazyCommand("planner.cli.mcp.command:mcp", "Serve the planner as tools of the Model Context Protocol."),
    "doctor": LazyCommand("planner.cli.doctor:doctor", "Show what was found here: driver, torch, folders, prices."),
    "help": LazyCommand("planner.cli.help:help_command", "Show help of a command, or of all as a tree, Markdown or manual page."),
}
