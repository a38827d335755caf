"""Requests as they came: a trace, and what it says about a workload."""
