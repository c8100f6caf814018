"""Readers of values that are given as texts: each one refuses a text that no store could use.

A reader is asked before anything is done with the value. It returns the value as the programs of Weir understand it.
"""

import os
import re
from collections.abc import Callable, Iterable

NAME_BYTES_MAX = 128
"""Longest name in a credential (a limit of the protocol)."""
ACCOUNT_MAX = 2**32 - 2
"""Largest number of a user or a group: the next one stands for none (chown(2))."""
NO_LIMIT = "none"
"""Spelling of a limit that is none."""
_PORT_MAX = 65535
_TARGET = re.compile(r"\d{1,5}\.\d{1,5}", re.ASCII)
_STORE_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?", re.ASCII)
"""A name of DNS or Slurm, or an address of IPv4: no option of ssh, no word of a shell, no digit of another script."""


def policy(text: str) -> str:
    """Read the name of a policy, such as `user-then-size-fair`; return the canonical one.

    Raises:
        ValueError: There is no such policy.
    """
    from weir import _core

    return _core.parse_policy(text)


def scheduler(text: str) -> str:
    """Read the name of a scheduler.

    Raises:
        ValueError: There is no such scheduler.
    """
    from weir import _core

    try:
        return _core.parse_sharing("size-fair", text)[1]
    except ValueError:
        # The scheduler `fifo` goes with the policy of that name alone. Its error is that of a name which nothing has.
        return _core.parse_sharing("fifo", text)[1]


def allocator(text: str) -> str:
    """Read the name of an allocator of a store.

    Raises:
        ValueError: A store has no such allocator.
    """
    from weir import _core

    return one_of(text, _core.allocator_names(), "allocator")


def size(text: str) -> int:
    """Read an amount of bytes, such as `4GiB`.

    Raises:
        ValueError: The text is no amount.
    """
    from weir import _core

    return _core.parse_size(text)


def rate(text: str) -> float:
    """Read a rate, such as `200MB/s`.

    Returns:
        The rate in bytes a second.

    Raises:
        ValueError: The text is no rate above 0.
    """
    from weir import _core

    return _core.parse_rate(text)


def duration(text: str) -> float:
    """Read a time, such as `100us`.

    Returns:
        The time in seconds.

    Raises:
        ValueError: The text is no time.
    """
    from weir import _core

    return _core.parse_seconds(text)


def ports(text: str) -> tuple[int, int]:
    """Read a range of ports, such as `20000-29999`.

    Returns:
        The first and the last port.

    Raises:
        ValueError: The text is no range of ports.
    """
    first, _, last = (part.strip() for part in text.partition("-"))
    if first.isdecimal() and last.isdecimal() and 1 <= int(first) <= int(last) <= _PORT_MAX:
        return int(first), int(last)
    raise ValueError(f'"{text}" is not a range of ports; try "20000-29999"')


def prefix(text: str) -> str:
    """Read a path below which a program sees a store without a mount.

    Raises:
        ValueError: The path is not absolute, or is the root.
    """
    if not text.startswith("/") or os.path.normpath(text).strip("/") == "":
        raise ValueError(f"`{text}` is not an absolute path below /, such as /weir")
    return text


def transport(text: str) -> str:
    """Read the way from clients to servers.

    Raises:
        ValueError: Clients know no such way.
    """
    from weir import _core

    return _core.parse_transport(text)


def silence(text: str) -> float:
    """Read the time for which a server may be silent, such as `10`.

    Returns:
        The time in seconds.

    Raises:
        ValueError: The text is no number, or no client waits for so short or so long a time.
    """
    from weir import _core

    return _core.parse_silence(text)


def heartbeat(text: str) -> float:
    """Read the interval of a mount's signs of life, such as `2`.

    Returns:
        The interval in seconds.

    Raises:
        ValueError: The text is no number, or no mount has so short or so long an interval.
    """
    from weir import _core

    return _core.parse_heartbeat(text)


def target(text: str) -> str:
    """Read the name of a target, such as `3.1`.

    Raises:
        ValueError: The text is no name of a target.
    """
    if _TARGET.fullmatch(text) is None:
        raise ValueError(f"`{text}` is not a target; write SERVER.INDEX, such as 3.1")
    return text


def host(text: str) -> str:
    """Read the name of a host, before any program is started with it.

    Args:
        text: The name, or an address of IPv4.

    Raises:
        ValueError: The text is no name of a host.
    """
    if _HOST.fullmatch(text) is None:
        raise ValueError(
            f"{text[:80]!a} is no name of a host: it has letters and digits of ASCII, and `.`, `_` and `-` between "
            "them, 253 at most"
        )
    return text


def user(text: str) -> int:
    """Read the name or the number of a user, who need not have an account where a number is given.

    Raises:
        ValueError: No user has the name, or can have the number.
    """
    import pwd

    return _account(text, "user", lambda: pwd.getpwnam(text).pw_uid)


def group(text: str) -> int:
    """Read the name or the number of a group, which need not be one of this host where a number is given.

    Raises:
        ValueError: No group has the name, or can have the number.
    """
    import grp

    return _account(text, "group", lambda: grp.getgrnam(text).gr_gid)


def _account(text: str, kind: str, named: Callable[[], int]) -> int:
    if text.isdecimal() and int(text) <= ACCOUNT_MAX:
        return int(text)
    try:
        return named()
    except KeyError:
        raise ValueError(f"there is no {kind} `{text}`; give a {kind} name or a number") from None


def size_limit(text: str) -> int | None:
    """Read a limit of bytes.

    Args:
        text: An amount, such as `4GiB`, or `none`.

    Returns:
        The limit in bytes; None for no limit.

    Raises:
        ValueError: The text is neither of the two.
    """
    return None if text == NO_LIMIT else size(text)


def count_limit(text: str) -> int | None:
    """Read a limit of a number of things.

    Args:
        text: A number below 2^63, or `none`.

    Returns:
        The limit; None for no limit.

    Raises:
        ValueError: The text is neither of the two.
    """
    if text == NO_LIMIT:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) < 1 << 63):
        raise ValueError(f"`{text}` is no number, and not `{NO_LIMIT}`")
    return int(text)


def store_name(text: str) -> str:
    """Read the name of a store in labels.

    Raises:
        ValueError: The text is no name.
    """
    if _STORE_NAME.fullmatch(text) is None:
        raise ValueError(f"{text[:80]!a} is no name of a store: it has 1 to 64 of letters, digits, `.`, `_` and `-`")
    return text


def claim(text: str) -> str:
    """Read a name that a credential claims: of a job, a user or a group.

    Raises:
        ValueError: The name is empty, or longer than a credential may have.
    """
    if not text:
        raise ValueError("the name is empty")
    if len(text.encode(errors="surrogateescape")) > NAME_BYTES_MAX:
        raise ValueError(f"the name has more than {NAME_BYTES_MAX} bytes")
    return text


def one_of(text: str, names: Iterable[str], kind: str) -> str:
    """Read one of several names.

    Args:
        text: The name.
        names: The names that there are.
        kind: Kind of the named thing, for the error.

    Raises:
        ValueError: The text is none of the names; the error tells the nearest.
    """
    known = list(names)
    if text in known:
        return text
    from difflib import get_close_matches

    near = get_close_matches(text, known, n=1)
    meant = f" (did you mean `{near[0]}`?)" if near else ""
    raise ValueError(f"unknown {kind} `{text}`: expected one of {', '.join(known)}{meant}")
