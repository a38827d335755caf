"""What runs beside the screen: the planning session, the telemetry of this machine, the benchmark."""
