"""`traffic`: what recorded requests say about a workload."""
