"""Frobnicator of Flux: the planner's deployment goes into each jobspec that asks Weir for storage.

In Flux's configuration: `[ingest.frobnicator]`, `plugins = ["defaults", "constraints", "/etc/weir/frobnicator.py"]`.
"""

from flux.job.frobnicator import FrobnicatorPlugin
from weir.errors import WeirError


class Frobnicator(FrobnicatorPlugin):
    """Asks the planner. The user is the one whom Flux names, whatever the jobspec says."""

    def configure(self, args, config):
        """Read the planner's socket from `[weir]` in Flux's configuration."""
        self.socket = config.get("weir", {}).get("socket")

    def frob(self, jobspec, user, urgency, flags):
        """Write the deployment at attributes.system.weir."""
        from weir.planner import flux

        try:
            jobspec.jobspec.update(flux.planned(jobspec.jobspec, user, self.socket))
        except WeirError as error:
            raise ValueError(f"{error.message} ({error.hint})" if error.hint else error.message) from error
