"""`weir policy`: how a store divides its time among jobs."""

import contextlib
from typing import Any

import click

from weir.cli.errors import FAILED, Failure, warn
from weir.cli.home import Home
from weir.cli.output import output_option


@click.group()
def policy() -> None:
    """Show or change how the store divides its time among jobs."""


@policy.command()
@output_option
@click.pass_obj
def show(home: Home, output: str) -> int:
    """Show the policy of each server. The exit code is 1 where they differ."""
    from weir.cli.control import servers_of
    from weir.cli.home import find_cluster
    from weir.cli.output import show as show_result

    answers: list[dict[str, Any]] = [
        {"server": server.number, "policy": server.ask("GET", "/v1/policy")["policy"]}
        for server in servers_of(find_cluster(home))
    ]
    policies = sorted({answer["policy"] for answer in answers})
    document = {"policy": policies[0] if len(policies) == 1 else None, "servers": answers}
    show_result(output, document, ("SERVER", "POLICY"), [(each["server"], each["policy"]) for each in answers])
    if len(policies) > 1:
        warn("the servers follow different policies", hint="set one with `weir policy set`")
        return FAILED
    return 0


@policy.command(name="set")
@click.argument("policy", metavar="POLICY")
@output_option
@click.pass_obj
def set_policy(home: Home, policy: str, output: str) -> None:
    """Change the policy of every server at once, while jobs run."""
    from weir import _core
    from weir.cli.configuration import check_policy
    from weir.cli.control import servers_of
    from weir.cli.home import find_cluster
    from weir.cli.output import show as show_result

    name = check_policy(policy)
    cluster = find_cluster(home)
    site_key = home.read_site_key() if home.owns(cluster) else None
    if site_key is None:
        raise Failure(
            f"permission denied: only who can read the key of {cluster} may change its policy",
            hint="ask the owner of the store, or set --home to it",
        )
    token = _core.control_token(site_key)
    changed: list[tuple[Any, str]] = []
    for server in servers_of(cluster):
        try:
            before = server.ask("GET", "/v1/policy")["policy"]
            server.ask("PUT", "/v1/policy", body={"policy": name}, token=token)
        except Failure:
            for earlier, old in changed:
                with contextlib.suppress(Failure):
                    earlier.ask("PUT", "/v1/policy", body={"policy": old}, token=token)
            raise
        changed.append((server, before))
    _remember(home, name)
    rows = [(server.number, before, name) for server, before in changed]
    document = {"policy": name, "servers": [{"server": server.number, "was": was} for server, was in changed]}
    show_result(output, document, ("SERVER", "WAS", "IS"), rows)


def _remember(home: Home, name: str) -> None:
    """Keep the policy for servers that are started again."""
    from weir.cli.configuration import Configuration, read_toml
    from weir.cli.files import write_whole

    if home.configuration.is_file():
        configuration = Configuration(read_toml(home.configuration))
        configuration.document["policy"] = name
        write_whole(home.configuration, configuration.text())
