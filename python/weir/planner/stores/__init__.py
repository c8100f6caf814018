"""The durable state of the planner: in SQLite, PostgreSQL or Redis, by URL."""

from pathlib import Path
from urllib.parse import urlsplit

from weir.planner.errors import PlannerError
from weir.planner.stores.contract import Store

SCHEMES = ("sqlite", "postgresql", "redis", "rediss")
"""Schemes of URLs that are known."""
_HINT = "sqlite:///FILE, postgresql://USER@HOST/NAME or redis://HOST:PORT/NUMBER"


def check_url(url: str) -> None:
    """Check the URL of a store.

    Raises:
        PlannerError: No store has such a URL.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise PlannerError(f"the database's URL cannot be read: {error}", hint=_HINT) from error
    # A URL may hold a password, so no message repeats more than its scheme.
    if parts.scheme not in SCHEMES:
        raise PlannerError(f"there is no database of the scheme {parts.scheme!r:.40}", hint=_HINT)
    if parts.scheme == "sqlite" and (parts.netloc or len(parts.path) < 2 or parts.query):
        raise PlannerError("the URL of an SQLite file has three slashes and a path", hint=_HINT)
    if parts.scheme.startswith("redis") and not parts.path.lstrip("/").isdigit() and parts.path.strip("/"):
        raise PlannerError("the path of a Redis URL is the number of a database", hint=_HINT)
    if port == 0:
        raise PlannerError("port 0 is nobody's", hint=_HINT)


def open_store(url: str) -> Store:
    """Open a store, and make what is missing in it.

    Args:
        url: A URL that `check_url` accepts.

    Returns:
        The store, claimed for this process.

    Raises:
        PlannerError: The store cannot be reached or used, or another planner uses it.
    """
    check_url(url)
    scheme = urlsplit(url).scheme
    try:
        if scheme.startswith("redis"):
            from weir.planner.stores.redis import RedisStore

            return RedisStore(url)
        if scheme == "postgresql":
            from weir.planner.stores.postgresql import PostgresqlStore

            return PostgresqlStore(url)
        from weir.planner.stores.sqlite import SqliteStore

        return SqliteStore(Path(url.removeprefix("sqlite:///")))
    except ImportError as error:
        from weir.distribution import install_command

        raise PlannerError(f"{error.name} is not installed", hint=install_command("planner"), code="failed") from error
