"""Changes of a workload that would make it fit, or make it cheaper, and what each saves and costs."""
