"""`weir uninstall`: end a store and remove everything of it."""

import click

from weir.cli.common.errors import say
from weir.cli.common.output import output_option, show
from weir.store.home import Home


@click.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
@output_option
@click.pass_obj
def uninstall(home: Home, yes: bool, output: str) -> None:
    """End the store and remove its home, with all files in it, on every host that it was deployed on.

    Folders of targets outside the home stay, and are listed. `pip uninstall weir-hpc` removes the package itself.
    """
    from weir.cli.common.confirmation import confirm
    from weir.deployment import deployment, member, record

    described = record.read(home)
    hosts = described.hosts() if described else ()
    where = f" on {len(hosts)} hosts" if hosts else ""
    confirm(f"remove {home.root}{where}, with all files of the store", yes=yes)
    ended = deployment.uninstall(home, described) if described else member.remove_home(home)
    document = {
        "stopped": ended.servers,
        "unmounted": [str(point) for point in ended.mounts],
        "hosts": list(hosts),
        "left": list(ended.left),
    }
    rows = [
        ("servers stopped", ended.servers),
        ("mounts ended", len(ended.mounts)),
        ("home removed", f"{home.root}{where}"),
    ]
    show(output, document, ("STORE", "removed"), rows)
    for path in ended.left:
        say(f"left as it is, because it lies outside of the home: {path}")
