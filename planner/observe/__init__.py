"""Observation of real machines: the properties of this one, its telemetry, its benchmark."""
