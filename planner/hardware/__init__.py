"""Hardware that could run a workload: GPUs as their vendors describe them, their prices, and the rates they really reach."""
