"""`weir planner`: the resident service that plans storage for jobs."""

from pathlib import Path
from typing import Literal

import click

from weir.cli.common.parameters import FILE, FOLDER, Checked, Number
from weir.store import values


def _user(text: str) -> int:
    import pwd

    if text.isascii() and text.isdigit() and len(text) <= 10:
        return int(text)
    try:
        return pwd.getpwnam(text).pw_uid
    except KeyError:
        raise ValueError(f"this machine knows no user {text!r:.40}") from None


def _module(text: str) -> None:
    if not all(part.isidentifier() for part in text.split(".")):
        raise ValueError(f"{text!r:.80} is no name of a Python module")


def _database(text: str) -> None:
    from weir.planner.stores import check_url

    check_url(text)


@click.command()
@click.option("--socket", type=FILE, help="Unix socket to listen on.  [default: /run/weir/planner.sock for root]")
@click.option(
    "--state",
    type=FOLDER,
    help="Folder of the database and of the deployments.  [default: /var/lib/weir-planner for root]",
)
@click.option(
    "--database",
    metavar="URL",
    type=Checked("url", _database),
    envvar="WEIR_PLANNER_DATABASE",
    help="sqlite:///FILE, redis://HOST:PORT/NUMBER or postgresql://USER@HOST/NAME.  [default: a file in the state]"
    "  [env: WEIR_PLANNER_DATABASE]",
)
@click.option(
    "--resources",
    required=True,
    type=FILE,
    help="Resource model of the site, in TOML; it is read again when it changes.",
)
@click.option("--prices", type=FILE, help="Prices of the administrator, in JSON; they are read at the start.")
@click.option("--factors", type=FILE, help="Interference factors of `weir plan factors`; they are read at the start.")
@click.option(
    "--scheduler-user",
    metavar="USER",
    type=Checked("user", _user),
    help="User besides root who may act for others, usually that of slurmctld.",
)
@click.option(
    "--replans",
    type=click.IntRange(0, 100),
    default=3,
    help="Number of times that a deployment is planned again if its plan cannot be carried out.",
)
@click.option(
    "--quarantine",
    metavar="TIME",
    type=Checked("time", values.duration),
    default="1h",
    help="Time for which a bad node is left out of plans.",
)
@click.option(
    "--hold",
    metavar="TIME",
    type=Checked("time", values.duration),
    default="1h",
    help="Time for which a plan that is not set up holds its storage; afterwards it is planned again.",
)
@click.option(
    "--orphan",
    metavar="TIME",
    type=Checked("time", values.duration),
    default="2min",
    help="Time that Slurm has to end the storage of a job that is over; afterwards the planner ends it.",
)
@click.option(
    "--share-max",
    metavar="PERCENT",
    type=click.IntRange(1, 100),
    default=100,
    help="Largest part of the site's storage, of each class of device, that one user may hold.",
)
@click.option(
    "--sharers-room",
    metavar="PERCENT",
    type=click.IntRange(0, 10_000),
    default=100,
    help="Extra room in a shareable store for jobs that join it, in percent of its own job's size; less if the"
    " devices have less.",
)
@click.option(
    "--new-class",
    metavar="FITNESS",
    type=Number(0, 1),
    default=0.75,
    help="A job whose best fitness to the known classes is below FITNESS is a class of its own.",
)
@click.option(
    "--reach",
    type=click.Choice(["auto", "local", "ssh"]),
    default="auto",
    help="Way to the servers' nodes: auto takes ssh for other machines, local starts all servers on this one.",
)
@click.option(
    "--steps",
    metavar="MODULE",
    type=Checked("module", _module),
    default="weir.planner.lifecycle",
    help="Python module with the site's own functions for the steps of a deployment (docs/reference/planner.md).",
)
def planner(
    socket: Path | None,
    state: Path | None,
    database: str | None,
    resources: Path,
    prices: Path | None,
    factors: Path | None,
    scheduler_user: str | None,
    replans: int,
    quarantine: str,
    hold: str,
    orphan: str,
    share_max: int,
    sharers_room: int,
    new_class: float,
    reach: Literal["auto", "local", "ssh"],
    steps: str,
) -> None:
    """Plan storage for jobs on request, and keep their deployments through their lives, in the foreground.

    Schedulers and `weir deployments` ask it over a Unix socket. A planner of root works for all users, each of whom
    sees and ends only their own deployments.
    """
    from weir.planner import daemon
    from weir.planner.places import default_socket, default_state
    from weir.planner.settings import Settings

    folder = (state or default_state()).absolute()
    daemon.run(
        Settings(
            socket=(socket or default_socket()).absolute(),
            state=folder,
            database=database or f"sqlite:///{folder}/planner.db",
            resources=resources.absolute(),
            prices=prices and prices.absolute(),
            factors=factors and factors.absolute(),
            scheduler_user=None if scheduler_user is None else _user(scheduler_user),
            steps=steps,
            reach=reach,
            replans_max=replans,
            quarantine_seconds=values.duration(quarantine),
            hold_seconds=values.duration(hold),
            orphan_seconds=values.duration(orphan),
            share_max=share_max / 100,
            sharers_room=sharers_room / 100,
            new_class_fitness=new_class,
        )
    )
