"""The user's own machines: their form in a workload, and inventories of clusters."""
