"""Benchmark results: points, what they change, what they prove."""
