"""`watch` and `rightsize`: telemetry, and advice from it."""
