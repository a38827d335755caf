"""Telemetry of this machine or of a fleet, and advice from it, as sections."""
