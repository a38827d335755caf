"""Changes of a workload that would make it fit, or make it cheaper, with the saving and the cost of each."""
