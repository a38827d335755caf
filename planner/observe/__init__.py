"""Observation of real machines: what this one is, its telemetry, its benchmark."""
