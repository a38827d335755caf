"""Recorded requests: a trace, and the workload in it."""
