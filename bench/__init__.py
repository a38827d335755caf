"""The benchmark: measures the device it runs on, in a separate process, with only the standard library and torch.

It runs under any interpreter that the user names (Python ≥ 3.10 with torch), so that people measure the torch they really use.
"""
