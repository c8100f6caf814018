"""Credentials: the identity of a job. A user who can read the site's key may mint them; others need a grant."""

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
"""Time before its minting from which a credential holds: the clocks of a cluster's nodes differ."""
LASTING_SECONDS = 10 * 365 * 86400
"""Time for which the credentials of a store's own mount and of its owner hold: in effect as long as its key."""
GROUPS_MAX = 256
"""Most supplementary groups in a credential (a limit of the protocol)."""


@dataclass(frozen=True)
class Identity:
    """The claims of a credential, without its times."""

    job: str
    user: str
    group: str
    uid: int
    gid: int
    groups: list[int]
    nodes: int = 1
    priority: int = 1
    role: Literal["user", "mount", "administrator"] = "user"

    @staticmethod
    def of_process(job: str) -> "Identity":
        """Make the identity of this process's user.

        Args:
            job: Name of the job.

        Returns:
            The identity, with this process's user and groups.
        """
        uid, gid = os.getuid(), os.getgid()
        groups = sorted(set(os.getgroups()))[:GROUPS_MAX]
        return Identity(job, user_name(uid), group_name(gid), uid, gid, groups)

    def mint(self, site_key: str, lasting_seconds: float) -> str:
        """Mint a credential that holds from now on.

        Args:
            site_key: The site's key.
            lasting_seconds: Time for which the credential holds.

        Returns:
            Text of the credential file.

        Raises:
            StoreError: The key is damaged, or a claim is outside of its limit.
        """
        now = int(time.time())
        try:
            return _core.mint_credential(
                site_key,
                **vars(self),
                issued_seconds=now - CLOCK_SKEW_SECONDS,
                expires_seconds=now + int(lasting_seconds),
            )
        except UnicodeEncodeError as error:
            raise StoreError(
                f"the name {error.object} has bytes that are no UTF-8", hint="names of jobs, users and groups are UTF-8"
            ) from error
        except ValueError as error:
            raise StoreError(str(error)) from error

    def narrowed(self, **claims: str | int | None) -> "Identity":
        """Replace claims.

        Args:
            claims: New claims by their names; those that are None stay as they are.

        Returns:
            The identity with the new claims.
        """
        return replace(self, **{name: value for name, value in claims.items() if value is not None})  # type: ignore[arg-type]


def read_claims(path: Path) -> "_core.Claims":
    """Read a credential file. A credential that every server would refuse is refused here.

    Raises:
        StoreError: The file cannot be read, is no credential, is another user's, or is outside of its time.
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
    """Find the name of a user.

    Args:
        uid: Number of the user.

    Returns:
        The name; the number as text where the user has no name.
    """
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def group_name(gid: int) -> str:
    """Find the name of a group.

    Args:
        gid: Number of the group.

    Returns:
        The name; the number as text where the group has no name.
    """
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
