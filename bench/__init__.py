"""The benchmark: measures the device it runs on, in a process of its own, with the standard library and torch only.

It runs under any interpreter the user names (Python ≥ 3.10 with torch), so people measure the torch they really use.
"""
