"""Telemetry over time: polled here, replayed from a recording, or read from an exporter or a Prometheus server."""
