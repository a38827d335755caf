"""Prediction of memory, time and money, as columns of one table; no I/O, no clock."""
