"""A recorded trace served by replicas of a plan's row: latencies as they would have been, and replicas by the hour."""
