"""The present of a running store, from which `what-if` and `tune` begin: its machines and its settings."""

from typing import Any

from weir.cli.common.errors import warn
from weir.store.home import Home, find_cluster


def now_of_store(home: Home) -> dict[str, Any]:
    """Ask the running store for its machines and settings.

    Returns:
        Values of a scenario's file: `topology`, and the settings that a scenario has too.

    Raises:
        StoreError: No store is up, or a server does not answer.
        ScenarioError: The store's configuration cannot be used.
    """
    import tomllib

    from weir.simulation.stores import configuration_of_store, settings_of_store, topology_of_store
    from weir.store.access import access_to

    cluster = find_cluster(home)
    access = access_to(home, cluster)
    file = configuration_of_store(cluster)
    if file is None:
        warn(
            f"the configuration of the store of {cluster} cannot be read: defaults are assumed for its grants,"
            " its layout and the interval of the exchange",
            hint="run the command as the user who brought the store up",
        )
    machines = tomllib.loads(topology_of_store(cluster, access).text())
    return {"topology": machines, **settings_of_store(cluster, access)}
