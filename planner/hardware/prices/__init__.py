"""Rental prices of GPUs, and their refresh."""
