"""Measured points: their record, their store, and the file in which they are exchanged."""
