"""Who comes in: by a token over TCP, by the kernel's word over a Unix socket, or by a reverse proxy's word over it."""

import grp
import hmac
import os
import pwd
import secrets
import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from weir.room.visitors import Role, Visitor
from weir.ways import user_name

SESSIONS_MAX = 1_000
"""Most sessions at once; the one that was idle longest ends for a new one."""
GROUPS_SECONDS = 10.0
"""Time for which the groups of a user count as they were looked up."""
IDLE_SECONDS = 12 * 3600.0
"""Time without a request after which a session ends."""
TOKEN_BYTES = 32


@dataclass(frozen=True, slots=True)
class Rights:
    """Who may do what.

    Attributes:
        groups: Unix group of each role above the viewer, as the site names them. The owner of the store and root are
            administrators.
        header: Header in which a reverse proxy names the user; empty trusts none.
        proxy: User as whom the proxy runs: its word counts over the Unix socket alone.
        all_names: Whether everybody sees the names of all jobs.
    """

    groups: Mapping[Role, str] = field(default_factory=dict)
    header: str = ""
    proxy: str = ""
    all_names: bool = False

    def visitor_of_socket(self, peer: socket.socket, headers: Mapping[str, str]) -> Visitor | None:
        """Find who speaks over a Unix socket.

        Args:
            peer: The connection, of which the kernel names the user.
            headers: Headers of the request.

        Returns:
            The visitor; None where the proxy speaks and names nobody that this host knows.
        """
        form = "3i"
        _, uid, _ = struct.unpack(form, peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize(form)))
        user = user_name(uid)
        if self.header and user == self.proxy:
            named = headers.get(self.header, "")
            return self._visitor(named) if _is_known(named) else None
        return self._visitor(user)

    def _visitor(self, user: str) -> Visitor:
        role = self._role(user)
        return Visitor(user, role, self.all_names or role >= Role.OPERATOR)

    def _role(self, user: str) -> Role:
        if user in ("root", user_name(os.geteuid())):
            return Role.ADMINISTRATOR
        groups = _groups_of(user, round(time.monotonic() / GROUPS_SECONDS))
        return max((role for role, group in self.groups.items() if group in groups), default=Role.VIEWER)


@dataclass
class Sessions:
    """Sessions of those who showed the token.

    Attributes:
        token: The token, which makes an administrator.
    """

    token: str = field(default_factory=lambda: secrets.token_urlsafe(TOKEN_BYTES))
    _owner: str = field(default_factory=lambda: user_name(os.geteuid()))
    _used: dict[str, float] = field(default_factory=dict)
    """Last use of each session, the longest ago first."""

    def begin(self, token: str) -> str | None:
        """Open a session.

        Returns:
            Its name; None where the token is another.
        """
        if not hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode()):
            return None
        while len(self._used) >= SESSIONS_MAX:
            del self._used[next(iter(self._used))]
        name = secrets.token_urlsafe(TOKEN_BYTES)
        self._used[name] = time.monotonic()
        return name

    def visitor_of(self, name: str) -> Visitor | None:
        """Find whose session it is.

        Returns:
            The visitor; None where there is no such session.
        """
        used = self._used.pop(name, None)
        if used is None or time.monotonic() - used > IDLE_SECONDS:
            return None
        self._used[name] = time.monotonic()
        return Visitor(self._owner, Role.ADMINISTRATOR, sees_all=True)


def _is_known(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except (KeyError, ValueError):
        return False
    return True


@lru_cache(maxsize=256)
def _groups_of(user: str, _turn: int) -> frozenset[str]:
    """The groups of a user, which are looked up once in a turn: the site's directory may take its time."""
    try:
        numbers = os.getgrouplist(user, pwd.getpwnam(user).pw_gid)
    except (KeyError, OSError):
        return frozenset()
    return frozenset(name for number in numbers if (name := _group_name(number)))


def _group_name(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return ""
