"""`weir job end`: the storage of a job ends without its results."""

import click

from weir.cli.common.errors import CommandError
from weir.cli.common.output import output_option, show
from weir.cli.job.folders import NAME, folder_of
from weir.store.home import Home


@click.command(name="end")
@click.argument("name", type=NAME)
@click.option("--discard", is_flag=True, help="Remove results that were not staged out, too.")
@click.option("--yes", is_flag=True, help="Do not ask before results are removed.")
@output_option
@click.pass_obj
def end(home: Home, name: str, discard: bool, yes: bool, output: str) -> None:
    """End the storage of a job that was ended early, without its results."""
    from weir.cli.common.confirmation import confirm
    from weir.provisioning.lifecycle.program import is_running
    from weir.provisioning.lifecycle.teardown import forget, teardown, unsaved

    folder = folder_of(home, name)
    state = folder.state()
    if is_running(state):
        raise CommandError(
            f"the program of {name} still runs (process {state.process.split()[0]})", hint="wait for its end, or end it"
        )
    left = unsaved(folder.deployment(), state)
    if discard and left:
        confirm(f"remove {', '.join(left)} of the job {name}", yes=yes)
    teardown(folder, discard=discard)
    forget(folder)
    show(output, {"name": name, "removed": left}, ("JOB", "ended"), [("removed", ", ".join(left) or "nothing")])
