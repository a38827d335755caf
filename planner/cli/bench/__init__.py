"""`bench`: measure this machine, or write a job that measures elsewhere."""
