"""The shipped data: GPUs, offers, models, ceilings, workloads. Read as files; see `planner.paths`."""
