"""Measures the device it runs on: standard library and torch only, in a process of its own.

It runs under any interpreter the user names (Python ≥ 3.10 with torch), so people measure the torch they really use.
"""
