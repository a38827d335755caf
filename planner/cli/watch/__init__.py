"""`watch` and `rightsize`: telemetry, and advice based on it."""
