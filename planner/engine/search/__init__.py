"""From one workload to ranked candidates: where it can run, how it is spread, what it costs, what would help."""
