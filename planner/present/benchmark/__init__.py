"""Benchmark results: points, their effect on plans, and proving runs."""
