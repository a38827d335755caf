"""Screens that lay out an answer of `planner.present` in sections: what GPUs run, ways to pay, the guided way, a portfolio."""
