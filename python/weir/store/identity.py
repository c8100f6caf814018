"""Credentials: who a job is. Whoever reads the site's key may mint them; others need a grant."""

import grp
import os
import pwd
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from weir import _core
from weir.store.errors import StoreError

CLOCK_SKEW_SECONDS = 300
"""A credential holds from this long before it is minted: the clocks of a cluster's nodes differ."""
LASTING_SECONDS = 10 * 365 * 86400
"""How long the credentials of a store's own mount and of its owner hold: as long as its key, in effect."""
GROUPS_MAX = 256
"""Supplementary groups in a credential (limit of the protocol)."""


@dataclass(frozen=True)
class Identity:
    """The claims of a credential, but for its times."""

    job: str
    user: str
    group: str
    uid: int
    gid: int
    groups: list[int]
    nodes: int = 1
    priority: int = 1
    role: Literal["user", "mount"] = "user"

    @staticmethod
    def of_process(job: str) -> "Identity":
        """This process's user and groups."""
        uid, gid = os.getuid(), os.getgid()
        groups = sorted(set(os.getgroups()))[:GROUPS_MAX]
        return Identity(job, user_name(uid), group_name(gid), uid, gid, groups)

    def mint(self, site_key: str, lasting_seconds: float) -> str:
        """The text of a credential file that holds from now for `lasting_seconds`.

        Raises:
            StoreError: The key is damaged, or a claim is outside its limit.
        """
        now = int(time.time())
        try:
            return _core.mint_credential(
                site_key,
                **vars(self),
                issued_seconds=now - CLOCK_SKEW_SECONDS,
                expires_seconds=now + int(lasting_seconds),
            )
        except ValueError as error:
            raise StoreError(str(error)) from error

    def narrowed(self, **claims: str | int | None) -> "Identity":
        """With the claims that are not None."""
        return replace(self, **{name: value for name, value in claims.items() if value is not None})  # type: ignore[arg-type]


def read_claims(path: Path) -> "_core.Claims":
    """The claims of a credential file, refused here where every server would refuse it.

    Raises:
        StoreError: The file cannot be read, is no credential, is another user's, or is outside its time.
    """
    try:
        claims = _core.claims_of_credential(path.read_text())
    except (ValueError, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise StoreError(
            f"cannot use the credential {path}: {reason}",
            hint="ask the holder of the site key for one: `weir grant`",
        ) from error
    now = time.time()
    if claims["uid"] != os.getuid():
        raise StoreError(
            f"permission denied: the credential {path} is of uid {claims['uid']}, and you are uid {os.getuid()}",
            hint="use a credential of your own: `weir grant --uid` mints one",
        )
    if not claims["issued_seconds"] <= now <= claims["expires_seconds"]:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(claims["expires_seconds"]))
        raise StoreError(
            f"permission denied: the credential {path} held until {when}",
            hint="ask the holder of the site key for a new one: `weir grant`",
        )
    return claims


def user_name(uid: int) -> str:
    """The name of a user, or its number where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def group_name(gid: int) -> str:
    """The name of a group, or its number where it has none."""
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
