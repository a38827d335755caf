"""Background work: the planning session, the telemetry of this machine, the benchmark."""
