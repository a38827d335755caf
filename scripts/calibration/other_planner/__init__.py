"""The other planner, `aiconfigurator` or `aisimulate`: questions in its terms, and the script that asks it."""
