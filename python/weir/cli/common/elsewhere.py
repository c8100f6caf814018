"""Servers of a store that are on other hosts than this one, for commands that work on the servers of one host."""

from weir.cli.common.asking import hosts_of
from weir.cli.common.errors import CommandError
from weir.store.home import Home


def refuse_elsewhere(home: Home, command: str) -> None:
    """Refuse a command on a host without servers of a store that has its servers on other hosts.

    Args:
        command: The command as it is called on a host with servers.

    Raises:
        CommandError: The servers are on other hosts, which the hint names.
    """
    if home.server_numbers():
        return
    places = sorted(set(_places(home).values()))
    if places:
        raise CommandError(
            f"the store of {home.root} has no servers on this host", hint=f"call {command} on {', '.join(places)}"
        )


def place_of(home: Home, number: int) -> str | None:
    """Find the host of a server.

    Returns:
        Name or address of the host; None where this host does not know it.
    """
    return _places(home).get(number)


def _places(home: Home) -> dict[int, str]:
    """The hosts of all servers by number: their names where the store was deployed from here, else their addresses."""
    if named := hosts_of(home):
        return named
    from weir.deployment.member import member_file
    from weir.store.configuration import read_toml

    if not member_file(home).is_file() or not home.configuration.is_file():
        return {}
    listening = [str(server.get("listen", "")) for server in read_toml(home.configuration).get("server", [])]
    return {number: address.rpartition(":")[0] for number, address in enumerate(listening) if ":" in address}
