"""Interface for programs and notebooks: `from planner import Planner`."""
