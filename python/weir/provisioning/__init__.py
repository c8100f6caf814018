"""The storage that a job needs, planned from the record of a past run.

`plan` reads a Darshan log or a trace and returns a `Plan`. The extra `provisioning` brings the packages.
"""

from typing import TYPE_CHECKING

from weir.exports import exporting

if TYPE_CHECKING:
    from weir.provisioning.errors import ProvisioningError
    from weir.provisioning.planning.planner import Plan
    from weir.provisioning.plans import plan

__all__ = ["Plan", "ProvisioningError", "plan"]

__getattr__, __dir__ = exporting(__name__, {"Plan": "planning.planner", "ProvisioningError": "errors", "plan": "plans"})
