"""Measured points: their record, their store, and the file they are passed on in."""
