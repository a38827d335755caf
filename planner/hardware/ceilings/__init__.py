"""What devices reach: achieved compute, bandwidth and latency, each with a basis and a spread."""
