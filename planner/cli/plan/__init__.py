"""`plan`: rank GPUs, counts and layouts for one workload."""
