"""Places of the planner's socket and state, where nobody names others."""

import os
from pathlib import Path

SYSTEM_SOCKET = Path("/run/weir/planner.sock")
"""Socket of root's planner."""
SYSTEM_STATE = Path("/var/lib/weir-planner")
"""State of root's planner."""
ENVIRONMENT = "WEIR_PLANNER"
"""The variable that names the socket."""


def default_state() -> Path:
    """Find the folder of this user's planner.

    Returns:
        The folder; root's is that of the system.
    """
    if os.geteuid() == 0:
        return SYSTEM_STATE
    state = os.environ.get("XDG_STATE_HOME", "")
    base = Path(state) if state.startswith("/") else Path.home() / ".local/state"
    return base / "weir" / "planner"


def default_socket() -> Path:
    """Find the socket that this user's planner listens on."""
    return SYSTEM_SOCKET if os.geteuid() == 0 else default_state() / "planner.sock"


def found_socket() -> Path:
    """Find the socket of the planner that this user may ask.

    Returns:
        The socket that `WEIR_PLANNER` names, else the user's own where there is one, else that of the system.
    """
    named = os.environ.get(ENVIRONMENT)
    if named:
        return Path(named)
    own = default_socket()
    return own if own.exists() else SYSTEM_SOCKET


def reserved(path: Path) -> Path:
    """Name the socket beside the planner's, for root and the scheduler's user alone.

    Args:
        path: The planner's socket, for every user.

    Returns:
        The socket whose queue of connections no other user can fill.
    """
    return path.with_name(f"{path.name}.reserved")
