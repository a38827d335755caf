"""One opened planner: the catalogue, this machine and its measurements, ready to answer.

The only room front ends (`planner.cli`, `widgets`) go through; they format what it returns.
"""

from __future__ import annotations
