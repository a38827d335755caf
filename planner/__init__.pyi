from planner.api.planner import Planner as Planner
from planner.errors import UserError as UserError
from planner.workload.tasks import Request as Request
from planner.workload.tasks import Workload as Workload

__all__ = ["Planner", "Request", "UserError", "Workload"]
__version__: str
