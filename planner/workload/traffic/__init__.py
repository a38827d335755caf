"""Recorded requests: a trace, and the workload it shows."""
