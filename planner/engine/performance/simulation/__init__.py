"""Continuous batching simulated iteration by iteration: from a replica's iteration times and its load to percentiles."""
