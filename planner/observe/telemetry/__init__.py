"""Telemetry over time: polled here, recorded, or told by an exporter or a Prometheus server."""
