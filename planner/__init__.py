"""Find which GPUs, and how many, to rent or buy for a transformer workload.

`from planner import Planner, Workload` is the interface for programs (docs/guide/python.md). Nothing is loaded until a name is asked for.
"""

__version__ = "0.1.0"

_INTERFACE = {
    "Planner": "planner.api.planner",
    "Request": "planner.workload.tasks",
    "UserError": "planner.errors",
    "Workload": "planner.workload.tasks",
}
"""Public names and their modules; `__init__.pyi` repeats them for type checkers."""
__all__ = ["Planner", "Request", "UserError", "Workload"]


def __getattr__(name: str) -> object:
    """The public name, loaded now."""
    if name not in _INTERFACE:
        raise AttributeError(f"module 'planner' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_INTERFACE[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
