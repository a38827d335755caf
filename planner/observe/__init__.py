"""What does happen: this machine, its telemetry, its benchmark."""
