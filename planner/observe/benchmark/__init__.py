"""The benchmark as seen by the planner: its process, its messages, and the results that are stored."""
