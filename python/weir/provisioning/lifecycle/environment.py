"""The environment of a job on its store: the way to the store, and a credential of the job's own."""

import os
from collections.abc import Mapping
from pathlib import Path

from weir.provisioning.errors import ProvisioningError
from weir.provisioning.lifecycle.record import JobFolder, Phase
from weir.store import launch
from weir.store.environment import without_store
from weir.store.home import Home
from weir.store.identity import Identity
from weir.ways import write_whole

PREFIX = Path("/weir")
"""Path below which programs see a store that is not mounted."""
_LASTING_SECONDS = 30 * 86400
"""Time for which a job's credential holds: longer than any queue lets a job run."""


def environment(
    folder: JobFolder, identity: Identity | None = None, present: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Make the environment in which programs use the job's store, with a credential in the job's folder.

    Args:
        folder: Folder of the job, whose store is up.
        identity: Identity of the job, as its scheduler knows it; None is this process's user.
        present: Further variables; None is those of this process, without any other store.

    Returns:
        Variables by their names.

    Raises:
        ProvisioningError: The store is not up.
        StoreError: The store's key cannot be read, or a claim is outside of its limits.
        NotInstalledError: The preload library is missing.
        OSError: The credential cannot be written.
    """
    deployment, state = folder.deployment(), folder.state()
    if state.phase.is_before(Phase.READY) or not state.phase.is_before(Phase.ENDING):
        raise ProvisioningError(f"{deployment.name} is {state.phase}, so it has no store", hint="set it up first")
    home = Home(Path(state.home))
    claims = identity or Identity.of_process(deployment.name)
    credential = _mint(folder, home, claims)
    mount = None if state.mount is None else Path(state.mount)
    variables = launch.environment(
        without_store(os.environ if present is None else present),
        home.cluster,
        mount or PREFIX,
        is_mounted=mount is not None,
    )
    return {**variables, "WEIR_CREDENTIAL": str(credential)}


def place_of(folder: JobFolder) -> Path:
    """Find the path at which programs in the job's environment see the store's root.

    Args:
        folder: Folder of the job, whose store is up.

    Returns:
        The mount point, or a path that the preload library serves.
    """
    mount = folder.state().mount
    return PREFIX if mount is None else Path(mount)


def _mint(folder: JobFolder, home: Home, claims: Identity) -> Path:
    site_key = home.read_site_key()
    if site_key is None:
        raise ProvisioningError(f"cannot read {home.site_key}", hint="the user who set the store up is its owner")
    own = claims.uid == os.geteuid()
    owner = None if own else (claims.uid, claims.gid)
    write_whole(folder.credential, claims.mint(site_key, _LASTING_SECONDS), owner=owner)
    return folder.credential
