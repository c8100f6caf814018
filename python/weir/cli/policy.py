"""`weir policy`: the division of a store's time among jobs."""

from typing import cast

import click

from weir.cli.common.asking import administered, ask_store, warn_of_silence
from weir.cli.common.errors import FAILED, CommandError, warn
from weir.cli.common.leases import lease_document, lease_words, leases_of
from weir.cli.common.listing import Listing
from weir.cli.common.output import output_option, sharing_name
from weir.cli.common.output import show as show_result
from weir.cli.common.parameters import Checked
from weir.store import values
from weir.store.home import Home


@click.group(cls=Listing)
def policy() -> None:
    """Show or change the division of the store's time among jobs."""


@policy.command()
@output_option
@click.pass_obj
def show(home: Home, output: str) -> int:
    """Show the policy and the scheduler that the site has set on each server.

    LEASE shows what `weir guard` has put in their place for some seconds; only users who can read the site's key see
    it. The exit code is 1 if servers differ or a server does not answer.
    """
    from weir.store.control import Server
    from weir.store.decoding import encode

    asked = ask_store(home, Server.sharing)
    leases = leases_of(server for server, sharing in asked if sharing is not None)
    answers = [
        {"server": server.number, **encode(sharing), "lease": lease_document(leases.get(server.number))}
        for server, sharing in asked
        if sharing is not None
    ]
    sharings = {(answer["policy"], answer["scheduler"]) for answer in answers}
    policy, scheduler = sharings.pop() if len(sharings) == 1 else (None, None)
    document = {"policy": policy, "scheduler": scheduler, "servers": answers}
    words = {number: lease_words(lease) for number, lease in leases.items()}
    rows = [
        (each["server"], each["policy"], each["scheduler"], words.get(cast(int, each["server"]), "-"))
        for each in answers
    ]
    show_result(output, document, ("SERVER", "POLICY", "SCHEDULER", "LEASE"), rows)
    if len(sharings) > 1:
        warn("the servers follow different policies", hint="set one with `weir policy set`")
        return FAILED
    return 0 if len(answers) == len(asked) else FAILED


@policy.command(name="set")
@click.argument("policy", metavar="POLICY", type=Checked("policy", values.policy))
@click.option(
    "--scheduler",
    type=Checked("scheduler", values.scheduler),
    help="Algorithm that enforces the policy.  [default: the present one if it can enforce the policy, else the"
    " policy's own]",
)
@output_option
@click.pass_obj
def set_policy(home: Home, policy: str, scheduler: str | None, output: str) -> int:
    """Change the policy of every server at once, while jobs run.

    A server that is down takes the policy when it is back; the exit code is then 1. The policy outlives restarts,
    until it is changed again or `weir up` is given another one.

    POLICY is fifo or LEVEL[-then-LEVEL...]-fair, the outermost level first. A level is group, user, priority, size or
    job: size-fair, user-then-size-fair (user-size-fair is the same). SCHEDULER is virtual-time, statistical-token,
    gift or tbf.
    """
    from weir.store.configuration import check_sharing
    from weir.store.decoding import encode
    from weir.store.sharing import set_everywhere

    name, enforcer = check_sharing(policy, scheduler)
    wanted = (name, None if scheduler is None else enforcer)
    servers = administered(home, "change its policy")
    changed = set_everywhere(
        servers, wanted, lambda server, error: warn_of_silence(home, server, error, then=", with this policy")
    )
    if not changed:
        raise CommandError("no server answers, so no policy was changed", hint="`weir up` starts the servers again")
    rows = [
        (
            each.server.number,
            sharing_name(each.was.policy, each.was.scheduler),
            sharing_name(each.now.policy, each.now.scheduler),
        )
        for each in changed
    ]
    answers = [
        {"server": each.server.number, "was": each.was.policy, "was_scheduler": each.was.scheduler} for each in changed
    ]
    show_result(output, {**encode(changed[0].now), "servers": answers}, ("SERVER", "WAS", "IS"), rows)
    return 0 if len(changed) == len(servers) else FAILED
