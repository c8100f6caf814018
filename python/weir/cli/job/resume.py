"""`weir job resume`: a job that was ended early goes on."""

import click

from weir.cli.common.errors import say
from weir.cli.job.folders import NAME, Telling, finished, folder_of
from weir.store.home import Home


@click.command(name="resume")
@click.argument("name", type=NAME)
@click.option("--rerun", "reruns", is_flag=True, help="Run the job's command again if it was ended early.")
@click.pass_obj
def resume(home: Home, name: str, reruns: bool) -> int:
    """Finish a job that was ended early: stage its results out, and end its storage.

    The exit code is that of the job's command.
    """
    from weir.provisioning.lifecycle.execution import go_on
    from weir.provisioning.lifecycle.interruption import Interruption

    folder = folder_of(home, name)
    with Interruption(say) as interruption, Telling() as tellers:
        return finished(folder, tellers, interruption, lambda *given: go_on(*given, reruns=reruns))
