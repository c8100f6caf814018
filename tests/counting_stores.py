"""Stores whose programs count their operations in windows that a test reads from shared memory."""

WINDOW_SECONDS = 2.0
"""Length of a window where counts are exact: the ring has 32 windows, and they are read before the oldest goes."""
_SERVER = """[[server]]
[[server.target]]
backend = "ram"
capacity = "64MiB"
"""


def cluster(window_seconds: float = WINDOW_SECONDS, *, servers: int = 2) -> str:
    """The cluster.toml of servers of one target in memory each."""
    return f'version = 1\nwindow = "{window_seconds}s"\n{_SERVER * servers}'
