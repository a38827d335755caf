"""`--on`: work in chunks on a cluster instead of in this process."""
