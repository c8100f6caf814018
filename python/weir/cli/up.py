"""`weir up`: bring a store up on this machine."""

import secrets
from pathlib import Path
from typing import Any

import click

from weir.cli.configuration import Configuration
from weir.cli.errors import Failure, say, warn
from weir.cli.home import Home
from weir.cli.output import output_option
from weir.cli.settings import store_options


@click.command()
@click.argument("file", metavar="[CLUSTER.toml]", required=False, type=click.Path(path_type=Path))
@store_options
@click.option("--mount", "point", metavar="PATH", type=click.Path(path_type=Path), help="Mount the store at PATH.")
@click.option("--no-mount", is_flag=True, help="Do not mount the store.")
@click.option(
    "--accept-journal-loss",
    is_flag=True,
    help="Start also where a journal lost changes that were on stable storage, and say what is lost.",
)
@output_option
@click.pass_context
def up(
    context: click.Context,
    /,
    file: Path | None,
    point: Path | None,
    no_mount: bool,
    accept_journal_loss: bool,
    output: str,
    **given: object,
) -> None:
    """Bring a store up: start its servers and mount it.

    Without a file, one server with two targets in memory is started. A store on directories that was stopped with
    `weir down` goes on where it was.
    """
    from weir.cli import cluster, mounts

    if no_mount and point is not None:
        raise click.UsageError("--mount and --no-mount contradict each other")
    home: Home = context.obj
    configuration = _configuration(context, home, file, given)
    home.create()
    with home.locked():
        servers = _go_on(home, is_mounted=not no_mount, accept_journal_loss=accept_journal_loss)
        if servers is not None:
            served = [mount.point for mount in mounts.mounts_of(home) if mount.is_served()]
            if not served and not no_mount:
                served = [made for made in (_mount(home, point),) if made]
            _report(home, cluster.running(home), servers, served[0] if served else None, output)
            return
        for mount in mounts.mounts_of(home):
            mounts.stop(mount, force=True)
        cluster.stop(home)
        _refuse_other_shape(home, configuration)
        _make_site_key(home)
        _mint_credentials(home)
        servers = cluster.start(home, configuration, accept_journal_loss=accept_journal_loss)
        try:
            mounted = None if no_mount else _mount(home, point)
        except BaseException:
            cluster.stop(home)
            raise
    _report(home, configuration, servers, mounted, output)


def _configuration(context: click.Context, home: Home, file: Path | None, given: dict[str, object]) -> Configuration:
    """What to start: the file and flags, else the store that lies in the home, else the embedded default."""
    from click.core import ParameterSource

    from weir.cli import cluster, configuration, settings

    def origin(name: str) -> str:
        source = context.get_parameter_source(name)
        return "flag" if source is ParameterSource.COMMANDLINE else "environment"

    shapes = (settings.SERVERS, settings.TARGETS, settings.BACKEND)
    if file is None and cluster.stored(home) and all(given[setting.name] is None for setting in shapes):
        file = home.configuration
    resolved = configuration.resolve(file, given, origin)
    _check_sharing(resolved, file)
    configuration.check(resolved, file)
    return resolved


def _check_sharing(configuration: Configuration, file: Path | None) -> None:
    """Refuse a wrong policy or scheduler before anything is started, and write down their canonical names."""
    from weir.cli.configuration import check_sharing

    document = configuration.document
    policy, scheduler = document.get("policy"), document.get("scheduler")
    if not isinstance(policy, str) or not isinstance(scheduler, str | None):
        # Of another shape: the server refuses it, with the line.
        return
    is_filed = str(file) in (configuration.origins.get("policy"), configuration.origins.get("scheduler"))
    names = check_sharing(policy, scheduler, str(file) if is_filed else "")
    document["policy"] = names[0]
    if scheduler is not None:
        document["scheduler"] = names[1]


def _go_on(home: Home, *, is_mounted: bool, accept_journal_loss: bool) -> list[dict[str, Any]] | None:
    """Deal with a store that is up: start servers and mounts again that died, and refuse where none did.

    Returns:
        The addresses of a store that goes on, or None where there is none.
    """
    from weir.cli import cluster, mounts

    if not home.cluster.is_file() or cluster.is_down(home):
        return None
    numbers = cluster.dead_servers(home)
    lost = mounts.lost(home) if is_mounted else []
    if not numbers and not lost:
        stopped = cluster.stopped_journals(home)
        if stopped:
            which = "; ".join(f"server {number}: {error}" for number, error in stopped)
            raise Failure(
                f"the store in {home.root} is up, but takes no changes where a journal stopped: {which}",
                hint="reads go on, and the journal begins anew by itself once its device works; see `weir status`",
            )
        raise Failure(f"the store in {home.root} is already up", hint="see `weir status`; end it with `weir down`")
    addresses = (
        cluster.restart(home, numbers, accept_journal_loss=accept_journal_loss) if numbers else cluster.published(home)
    )
    if numbers:
        say(f"started again: {', '.join(f'server {number}' for number in numbers)}")
    for mount in lost:
        mounts.start_again(home, mount)
        say(f"mounted again: {mount.point}")
    return addresses


def _refuse_other_shape(home: Home, configuration: Configuration) -> None:
    from weir.cli import cluster

    stored = cluster.stored(home)
    if stored is not None and stored.shape() != configuration.shape():
        raise Failure(
            f"{home.root} holds a store of other servers and targets",
            hint="leave them as they are, choose another --home, or remove its files with `weir down --discard`",
        )


def _make_site_key(home: Home) -> None:
    from weir.cli.files import write_whole

    if home.read_site_key() is None:
        write_whole(home.site_key, secrets.token_hex(32) + "\n")


def _mint_credentials(home: Home) -> None:
    """The credential of the mount, and that of this user's programs outside of `weir run`."""
    import os

    from weir.cli.files import write_whole
    from weir.cli.identity import LASTING_SECONDS, Identity

    site_key = home.read_site_key()
    if site_key is None:
        raise Failure(f"cannot read {home.site_key}", hint="who brought the store up is its owner")
    mine = Identity.of_process("default")
    # Only root's mount is for every user, so only it speaks for others.
    mount = Identity.of_process("mount").narrowed(role="mount" if os.geteuid() == 0 else "user")
    write_whole(home.credentials / f"uid-{mine.uid}.json", mine.mint(site_key, LASTING_SECONDS))
    write_whole(home.credentials / "mount.json", mount.mint(site_key, LASTING_SECONDS))


def _mount(home: Home, point: Path | None) -> Path | None:
    """Mount the store; where that cannot be, and nobody asked for it, say so and go on."""
    from weir.cli import mounts

    problem = mounts.device_problem()
    if problem and point is None:
        warn(
            f"the store is not mounted: {problem}",
            hint="programs reach it with `weir run --prefix /weir -- CMD`",
        )
        return None
    chosen = (point or home.mount_point).absolute()
    mounts.start(home, chosen, cluster=home.cluster, credential=home.credentials / "mount.json")
    return chosen


def _report(
    home: Home, configuration: Configuration, servers: list[dict[str, Any]], mounted: Path | None, output: str
) -> None:
    from weir.cli.cluster import announced
    from weir.cli.configuration import check_sharing
    from weir.cli.output import sharing_name, show

    targets = configuration.targets()
    policy, scheduler = check_sharing(configuration.policy, configuration.scheduler)
    document = {
        "home": str(home.root),
        "cluster": str(announced(home)),
        "mount": str(mounted) if mounted else None,
        "policy": policy,
        "scheduler": scheduler,
        "servers": servers,
    }
    rows = [
        ("servers", f"{len(servers)}, with {len(targets)} targets ({_backends(targets)})"),
        ("policy", sharing_name(policy, scheduler)),
        ("home", home.root),
        ("mount", mounted or "none"),
    ]
    show(output, document, ("STORE", "up"), rows)
    if output == "table":
        say("next: `weir run -- CMD` runs a program on it, `weir status` shows it, `weir down` ends it")


def _backends(targets: list[dict[str, Any]]) -> str:
    return ", ".join(sorted({str(target["backend"]) for target in targets}))
