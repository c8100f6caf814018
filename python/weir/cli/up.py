"""`weir up`: the start of a store on this machine."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir.cli.common.errors import CommandError, say, tell
from weir.cli.common.options import origin_of, store_options
from weir.cli.common.output import output_option, sharing_name, show
from weir.cli.common.parameters import PATH
from weir.store.errors import StoreError
from weir.store.home import Home

if TYPE_CHECKING:
    from collections.abc import Callable

    from weir.store.configuration import Configuration
    from weir.store.lifecycle import Running


@click.command()
@click.argument("file", metavar="[CLUSTER.toml]", required=False, type=PATH)
@store_options
@click.option(
    "--mount", "point", metavar="PATH", type=click.Path(path_type=Path, readable=False), help="Mount the store at PATH."
)
@click.option("--no-mount", is_flag=True, help="Do not mount the store.")
@click.option(
    "--accept-journal-loss",
    is_flag=True,
    help="Start even if a journal lost changes that were on stable storage, and list the lost changes.",
)
@click.option("--check", "is_checked", is_flag=True, help="Only check whether the store could be brought up.")
@output_option
@click.pass_context
def up(
    context: click.Context,
    /,
    file: Path | None,
    point: Path | None,
    no_mount: bool,
    accept_journal_loss: bool,
    is_checked: bool,
    output: str,
    **given: object,
) -> None:
    """Bring a store up: start its servers and mount it.

    Without a file, one server with two targets in memory is started. A store on directories that was stopped with
    `weir down` starts again with its files.
    """
    from weir.deployment import record
    from weir.store import lifecycle, restored

    if no_mount and point is not None:
        raise click.UsageError("--mount and --no-mount contradict each other")
    home: Home = context.obj
    if record.read(home) is not None:
        raise CommandError(
            f"the store of {home.root} is on several hosts",
            hint="bring it up with `weir deploy`, or choose another --home",
        )

    origin = partial(origin_of, context)
    configuration = lifecycle.plan(home, file, given, origin)
    mounting = lifecycle.Mounting(is_wanted=not no_mount, point=point)
    _refuse_unlike(home, file, given, point, origin)
    if is_checked:
        lifecycle.check(home, configuration, mounting, accept_journal_loss=accept_journal_loss)
        _report_check(home, configuration, output)
        return
    running = lifecycle.bring_up(home, configuration, mounting, tell, accept_journal_loss=accept_journal_loss)
    _report(home, running, output)
    restored.tell(home, tell)


def _refuse_unlike(
    home: Home, file: Path | None, given: dict[str, object], point: Path | None, origin: "Callable[[str], str]"
) -> None:
    """Refuse options that differ from those of a store that is up, because the store keeps its own."""
    from weir.store import cluster, mounts
    from weir.store.configuration import resolve
    from weir.store.fixed import unlike

    if not home.cluster.is_file() or not home.configuration.is_file() or cluster.is_down(home):
        return
    refused = unlike(home.configuration, given, origin)
    if file is not None and resolve(file, {}, origin).shape() != cluster.running(home).shape():
        refused.insert(0, str(file))
    points = [mount.point for mount in mounts.mounts_of(home)]
    if point is not None and points and point.absolute() not in points:
        refused.append(f"`mount` {point}")
    if refused:
        raise CommandError(
            f"the store in {home.root} is already up, and does not take {', '.join(refused)}",
            hint="leave out what it cannot take; `weir config show` shows what it has",
        )


def _report_check(home: Home, configuration: "Configuration", output: str) -> None:
    targets = configuration.targets()
    document = {"home": str(home.root), "servers": len(configuration.servers), "targets": len(targets)}
    rows = [
        ("servers", f"{len(configuration.servers)}, with {len(targets)} targets ({_backends(targets)})"),
        ("home", home.root),
    ]
    show(output, document, ("STORE", "can be brought up"), rows)


def _report(home: Home, running: "Running", output: str) -> None:
    from weir.store.cluster import announced

    targets = [target for target in running.configuration.targets() if target.get("state") != "retired"]
    policy, scheduler = _sharing_in_force(home, running)
    document = {
        "home": str(home.root),
        "cluster": str(announced(home)),
        "mount": str(running.mount) if running.mount else None,
        "policy": policy,
        "scheduler": scheduler,
        "servers": running.servers,
    }
    rows = [
        ("servers", f"{len(running.servers)}, with {len(targets)} targets ({_backends(targets)})"),
        ("policy", sharing_name(policy, scheduler)),
        ("home", home.root),
        ("mount", running.mount or "none"),
    ]
    show(output, document, ("STORE", "up"), rows)
    if output == "table":
        say("next: `weir run -- CMD` runs a program on it, `weir status` shows it, `weir down` ends it")


def _sharing_in_force(home: Home, running: "Running") -> tuple[str, str]:
    """The policy and scheduler that the servers follow: what was set while the store ran outlives its configuration."""
    from weir.store.access import servers_at
    from weir.store.configuration import check_sharing
    from weir.store.control import Server, ask_all

    for answer in ask_all(servers_at(home), Server.sharing):
        if not isinstance(answer, StoreError):
            return answer.policy, answer.scheduler
    return check_sharing(running.configuration.policy, running.configuration.scheduler)


def _backends(targets: list[dict[str, Any]]) -> str:
    return ", ".join(sorted({str(target["backend"]) for target in targets}))
