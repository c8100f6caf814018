"""`weir job list`: the jobs that are not at their end."""

import click

from weir.cli.common.job_identity import document
from weir.cli.common.output import output_option, show
from weir.store.home import Home


@click.command(name="list")
@output_option
@click.pass_obj
def list_jobs(home: Home, output: str) -> None:
    """List the jobs that have not ended."""
    from weir.provisioning.lifecycle.execution import jobs_folder
    from weir.provisioning.lifecycle.record import JobFolder

    root = jobs_folder(home.root)
    folders = [JobFolder(path) for path in sorted(root.iterdir())] if root.is_dir() else []
    found = [(folder, folder.state()) for folder in folders if folder.exists()]
    rows = [
        (folder.root.name, state.phase.value, "-" if state.exit_code is None else state.exit_code, state.fault or "-")
        for folder, state in found
    ]
    documents = [{"name": folder.root.name, "folder": str(folder.root), **document(state)} for folder, state in found]
    show(output, documents, ("JOB", "PHASE", "EXIT", "FAULT"), rows)
