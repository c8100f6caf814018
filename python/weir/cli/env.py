"""`weir env`: the environment of programs that use a store."""

import os

import click

from weir.cli.common.output import json_text, output_option
from weir.store.home import Home, find_cluster


@click.command()
@click.option(
    "--preload", is_flag=True, help="Print LD_PRELOAD, too: every program of the shell then takes the fast path."
)
@output_option
@click.pass_obj
def env(home: Home, preload: bool, output: str) -> None:
    """Print the variables of the store for a shell: eval "$(weir env)"."""
    import shlex

    from weir.store import step_journal
    from weir.store.launch import credential_path, library_path, mount_point

    cluster = find_cluster(home)
    variables = {"WEIR_CLUSTER": str(cluster)}
    credential = credential_path(home)
    if credential is not None:
        variables["WEIR_CREDENTIAL"] = str(credential)
    point = mount_point(home)
    if point is not None:
        variables["WEIR_MOUNT"] = str(point)
    if home.owns(cluster) and home.read_site_key() is not None:
        variables |= step_journal.variables(home, os.environ)
    if preload:
        variables["LD_PRELOAD"] = library_path(os.environ)
    if output == "table":
        for name, value in variables.items():
            print(f"export {name}={shlex.quote(value)}")
    else:
        print(json_text(variables, indent=2 if output == "json" else None))
