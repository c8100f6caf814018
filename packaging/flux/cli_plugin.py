"""Option `--weir` of `flux submit`, `run`, `batch`, `alloc` and `bulksubmit`: storage for the job.

Copy this file into Flux's folder of plugins (`FLUX_CLI_PLUGINPATH`, or cli/plugins below its configuration).
"""

from flux.cli.plugin import CLIPlugin
from weir.errors import WeirError


class WeirStorage(CLIPlugin):
    """Storage by Weir.

    `--weir=NAME=VALUE` may stand several times: --weir=size=200GB --weir=stage_in=/project/input:input. The guide
    "Storage of jobs under Slurm and Flux" of Weir has all names.
    """

    def __init__(self, prog, prefix=None):
        """Add the option."""
        super().__init__(prog, prefix=prefix)
        self.add_option("--weir", action="append", metavar="NAME=VALUE", help="Ask Weir for storage.")

    def modify_jobspec(self, args, jobspec):
        """Write the user's wishes into the jobspec."""
        from weir.provisioning.jobs import ornaments

        words = getattr(args, "weir", None)
        if words:
            jobspec.jobspec.update(_told(ornaments.wish, jobspec.jobspec, words))

    def validate(self, jobspec):
        """Refuse a jobspec with a wish that is no directive."""
        from weir.provisioning.jobs import ornaments

        _told(ornaments.wishes_of, jobspec.jobspec)


def _told(function, *arguments):
    try:
        return function(*arguments)
    except WeirError as error:
        # Flux shows the text of a ValueError.
        raise ValueError(f"{error.message} ({error.hint})" if error.hint else error.message) from error
