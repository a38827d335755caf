"""Pane 4: the telemetry of this machine."""
