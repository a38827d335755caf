"""Observation of real machines: properties, telemetry and benchmarks."""
