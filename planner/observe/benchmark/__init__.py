"""The benchmark from the planner's side: its process, its messages, and the results that are stored."""
