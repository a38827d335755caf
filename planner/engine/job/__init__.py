"""Job: the workload with every choice made that does not depend on hardware."""
