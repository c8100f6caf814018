"""`weir deployments`: the deployments that the planner keeps."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir.cli.common.listing import Listing
from weir.cli.common.output import output_option, show, size
from weir.cli.common.parameters import FILE, Checked, Number

if TYPE_CHECKING:
    from weir.planner.client import Client


def _name(text: str) -> None:
    _protocol().check_name(text)


@click.group(cls=Listing)
@click.option(
    "--socket",
    type=FILE,
    envvar="WEIR_PLANNER",
    help="Socket of the planner.  [default: this user's own, else /run/weir/planner.sock]  [env: WEIR_PLANNER]",
)
@click.pass_context
def deployments(context: click.Context, socket: Path | None) -> None:
    """List, show and end the deployments that `weir planner` keeps for your jobs."""
    context.obj = socket


@deployments.command(name="list")
@click.option(
    "--all-users", is_flag=True, help=("List the deployments of every user: for root and the scheduler's user.")
)
@click.option("--ended", is_flag=True, help="Also list deployments that ended in the last days.")
@output_option
@click.pass_obj
def list_deployments(socket: Path | None, all_users: bool, ended: bool, output: str) -> None:
    """List deployments with their states."""
    with _client(socket) as client:
        found = client.deployments(all_users=all_users, ended=ended)
    rows = [
        (each.name, each.uid, each.job or "-", each.state, size(each.size_bytes), _nodes(each), each.joins or "-")
        for each in found
    ]
    header = ("NAME", "UID", "JOB", "STATE", "SIZE", "NODES", "JOINS")
    show(output, [_document(each) for each in found], header, rows)


@deployments.command(name="show")
@click.argument("name", type=Checked("name", _name))
@output_option
@click.pass_obj
def show_deployment(socket: Path | None, name: str, output: str) -> None:
    """Show a deployment: its state, its last failures, and its storage.

    Ended deployments are shown for seven days, the last thousand of each user, until their name is used again.
    """
    protocol = _protocol()
    with _client(socket) as client:
        found = client.ask(protocol.Show(name=name), protocol.Shown)
    each, deployment = found.summary, found.deployment
    rows = [
        ("name", each.name),
        ("state", each.state),
        ("step", each.step or "-"),
        ("failure", each.error or "-"),
        *((f"failed in {failure.step}", f"{_moment(failure.at)} {failure.message}") for failure in found.failures),
        ("remedy", each.hint or "-"),
        ("identity", deployment.identity),
        ("system", f"{deployment.system.servers} servers of {deployment.system.device}"),
        ("size", size(each.size_bytes)),
        ("nodes", _nodes(each)),
        ("policy", deployment.policy),
        ("joins", each.joins or "-"),
        ("shared by", " ".join(found.sharers) or "-"),
        ("planned again", each.replans),
        ("left out", " ".join(found.left_out) or "-"),
    ]
    show(output, _document(found), ("FIELD", "VALUE"), rows)


@deployments.command(name="end")
@click.argument("name", type=Checked("name", _name))
@click.option("--discard", is_flag=True, help="Remove output that was not staged out, too.")
@click.option(
    "--wait",
    metavar="SECONDS",
    type=Number(0, 600),
    default=60,
    help="Longest time to wait for the end; the deployment ends even if the command does not wait for it.",
)
@output_option
@click.pass_obj
def end_deployment(socket: Path | None, name: str, discard: bool, wait: float, output: str) -> None:
    """End a deployment in whatever state it is. A store that other jobs share stays up for them."""
    protocol = _protocol()
    with _client(socket) as client:
        found = client.ask(protocol.End(name=name, discard=discard, wait_seconds=wait), protocol.Summary)
    show(output, _document(found), ("NAME", "STATE"), [(found.name, found.state)])


def _moment(seconds: float) -> str:
    from datetime import UTC, datetime

    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _client(socket: Path | None) -> "Client":
    _protocol()
    from weir.planner.client import Client

    return Client(socket)


def _protocol() -> Any:
    from weir.planner import protocol

    return protocol


def _nodes(each: Any) -> str:
    shown = " ".join(each.nodes[:4])
    return f"{shown} and {len(each.nodes) - 4} more" if len(each.nodes) > 4 else shown or "-"


def _document(of: Any) -> dict[str, Any]:
    import msgspec

    document: dict[str, Any] = msgspec.to_builtins(of)
    return document
