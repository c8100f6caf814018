"""The address of a store and the credential of a job, with which a client in this process uses the store."""

import atexit
import contextlib
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weir.store.errors import SettingsError, StoreError

if TYPE_CHECKING:
    from weir.store.client import FileSystem
    from weir.store.home import Home
    from weir.store.instance import Store

_minted: dict[tuple[object, ...], Path] = {}
"""The credential of each job of this process, by its home and claims: a process and its forks are one job."""


@dataclass(frozen=True)
class Address:
    """All that another process of the same user needs to use the store as the same job.

    Attributes:
        cluster: The store's cluster.json, which names the addresses of the servers.
        credential: The file with the job's credential.
        root: Mount point or prefix of the store, below which absolute symbolic links lead back into the store.
        transport: The way to the servers, as in WEIR_TRANSPORT; None is the default.
        timeout_seconds: Longest silence of a server; None is the default.
    """

    cluster: Path
    credential: Path
    root: Path | None = None
    transport: str | None = None
    timeout_seconds: float | None = None

    def variables(self) -> dict[str, str]:
        """Make the variables with which a program of `weir run` uses the store.

        Returns:
            Variables by their names, with the folder in which this process counts its operations.
        """
        from weir.store import window_folders

        named: dict[str, object] = {
            "WEIR_CLUSTER": self.cluster,
            "WEIR_CREDENTIAL": self.credential,
            "WEIR_PREFIX": self.root,
            "WEIR_TRANSPORT": self.transport,
            "WEIR_TIMEOUT_SECONDS": self.timeout_seconds,
        }
        set_ones = {name: str(value) for name, value in named.items() if value is not None}
        return set_ones | window_folders.variables(os.environ)


def connect(
    store: "str | os.PathLike[str] | Store | None" = None,
    *,
    credential: str | os.PathLike[str] | None = None,
    job: str | None = None,
    user: str | None = None,
    group: str | None = None,
    nodes: int | None = None,
    priority: int | None = None,
    transport: str | None = None,
    timeout_seconds: float | None = None,
) -> "FileSystem":
    """Use a store from this process, without a mount and without the preload library.

    Inside of `weir run` the process goes on as the job of that run. Elsewhere it is a job of its own, which `job` and
    the other claims may name for a user who can read the site's key; other users go on under their grant.

    Args:
        store: The home of a store, its cluster.json, or a store that `up` returned. None is the store that commands
            use: that of WEIR_CLUSTER, of WEIR_HOME, or of the default home.
        credential: The file with the credential of the job. None is that of WEIR_CREDENTIAL, a new one by the site's
            key, or the one that the user was granted.
        job: Name of the job.
        user: Name of the user that the job is accounted under.
        group: Name of the job's group.
        nodes: Compute nodes of the job.
        priority: Priority of the job.
        transport: The way to the servers: `auto`, `unix` or `tcp`. None is that of WEIR_TRANSPORT.
        timeout_seconds: Longest silence of a server, after which a call fails. None is that of WEIR_TIMEOUT_SECONDS, or
            10.

    Returns:
        The files of the store, whose root the home server has shown.

    Raises:
        SettingsError: A setting cannot be used.
        StoreError: There is no store, or this user has no credential for it.
        OSError: The store does not answer, or refuses the credential.
    """
    from weir.store.client import FileSystem

    claims = {"job": job, "user": user, "group": group, "nodes": nodes, "priority": priority}
    asked = {name: value for name, value in claims.items() if value is not None}
    address = find_address(store, credential, asked, transport=transport, timeout_seconds=timeout_seconds)
    files = FileSystem(address)
    files.stat("/")
    return files


def find_address(
    store: "str | os.PathLike[str] | Store | None",
    credential: str | os.PathLike[str] | None,
    asked: Mapping[str, str | int],
    *,
    transport: str | None = None,
    timeout_seconds: float | None = None,
) -> Address:
    """Find a store and the credential of a job, without a word to the store's servers.

    Args:
        store: The store, as for `connect`.
        credential: The credential, as for `connect`.
        asked: Claims that the job is to have.
        transport: The way to the servers, as for `connect`.
        timeout_seconds: Longest silence of a server, as for `connect`.

    Raises:
        SettingsError: A setting cannot be used.
        StoreError: There is no store, or this user has no credential for it.
    """
    from weir.store.identity import read_claims

    home, cluster = _place(store)
    is_own = store is None or _is_same(os.environ.get("WEIR_CLUSTER"), cluster)
    variables = os.environ if is_own else {}
    chosen = Path(credential).absolute() if credential is not None else _credential(home, cluster, variables, asked)
    held = read_claims(chosen)
    for name, value in asked.items():
        if held[name] != value:  # type: ignore[literal-required]
            raise StoreError(
                f"permission denied: the credential {chosen} says {name} {held[name]}, "  # type: ignore[literal-required]
                f"and {name} {value} is asked for",
                hint=f"connect without `{name}`, or ask the owner of the store for such a grant: `weir grant`",
            )
    if timeout_seconds is not None and not timeout_seconds > 0:
        raise SettingsError(f"timeout_seconds cannot be {timeout_seconds!r}", hint="give seconds above 0")
    return Address(
        cluster,
        chosen,
        _root(home, variables),
        transport or os.environ.get("WEIR_TRANSPORT") or None,
        timeout_seconds or _seconds(os.environ.get("WEIR_TIMEOUT_SECONDS")),
    )


def _place(store: "str | os.PathLike[str] | Store | None") -> "tuple[Home, Path]":
    """The home and the cluster.json of a store."""
    from weir.store.home import Home, find_cluster

    if store is None:
        home = Home.at(os.environ.get("WEIR_HOME"))
        return home, find_cluster(home)
    named = Path(store) if isinstance(store, (str, os.PathLike)) else store.home
    path = named.expanduser().absolute()
    home, cluster = (Home(path.parent), path) if path.suffix == ".json" else (Home(path), path / "cluster.json")
    if not os.access(cluster, os.R_OK):
        raise StoreError(f"no store is up in {path}", hint="start one with `weir up` or `weir.store.up`")
    return home, cluster


def _credential(home: "Home", cluster: Path, variables: Mapping[str, str], asked: Mapping[str, Any]) -> Path:
    """The credential of this process: that of its run, a new one, or the user's own."""
    granted = variables.get("WEIR_CREDENTIAL")
    may_mint = home.owns(cluster) and home.read_site_key() is not None
    if granted and not (asked and may_mint):
        return Path(granted).absolute()
    if may_mint:
        return _minted_credential(home, asked)
    name = f"uid-{os.getuid()}.json"
    for folder in (cluster.parent / home.credentials.name, home.credentials):
        if os.access(folder / name, os.R_OK):
            return folder / name
    raise StoreError(
        f"permission denied: you have no credential for the store of {cluster}, and cannot read its key",
        hint="ask the owner of the store for a grant (`weir grant`), and give its file as `credential`",
    )


def _minted_credential(home: "Home", asked: Mapping[str, Any]) -> Path:
    """The credential of this process for a job with these claims, which is minted once."""
    from weir.store.launch import minted, run_job

    key = (home.root, *sorted(asked.items()))
    known = _minted.get(key)
    if known is None or not known.is_file():
        kept = contextlib.ExitStack()
        known = _minted[key] = kept.enter_context(minted(home, run_job(_program(), **asked)))
        atexit.register(_forget, os.getpid(), kept)
    return known


def _program() -> str:
    """The name of this program; an interpreter with no script of its own has a dash in its place."""
    name = Path(sys.argv[0]).name if sys.argv else ""
    return "python" if name.startswith("-") or not name else name


def _forget(process: int, kept: contextlib.ExitStack) -> None:
    """Remove a credential at the end of the process for which it was minted; a fork of that process leaves it."""
    if os.getpid() == process:
        kept.close()


def _root(home: "Home", variables: Mapping[str, str]) -> Path | None:
    """The path below which programs of this host see the store."""
    from weir.store import mounts

    for name in ("WEIR_MOUNT", "WEIR_PREFIX"):
        if variables.get(name):
            return Path(os.path.normpath(variables[name]))
    known = mounts.mounts_of(home) if os.access(home.mounts, os.R_OK) else []
    return known[0].point if known else None


def _is_same(named: str | None, cluster: Path) -> bool:
    return bool(named) and Path(str(named)).absolute() == cluster


def _seconds(text: str | None) -> float | None:
    from weir import _core

    if not text:
        return None
    try:
        return _core.parse_silence(text)
    except ValueError as error:
        raise SettingsError(f"WEIR_TIMEOUT_SECONDS is {text!r}", hint=str(error)) from error
