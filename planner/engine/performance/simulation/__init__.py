"""Continuous batching, one iteration after the other: a replica's step times and its load turned into percentiles."""
