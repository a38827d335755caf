"""Readers of the result files of other tools, listed in `planner.observe.results.read`."""
