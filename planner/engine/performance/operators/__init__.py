"""Seconds of the operators of one pass on one kind of device: products, attention, collectives."""
