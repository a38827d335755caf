"""Changes of a workload that would make it fit, and what each saves and costs."""
