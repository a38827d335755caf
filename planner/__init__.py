"""Which GPU, how many, rented or bought, a transformer workload needs."""

__version__ = "0.1.0"
