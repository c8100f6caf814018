"""The packages that `weir interference` needs."""

from importlib.util import find_spec

from weir.cli.errors import CommandError
from weir.distribution import install_command


def needed() -> None:
    """Refuse where a package of the extra is missing.

    Raises:
        CommandError: One is missing.
    """
    for name in ("lightgbm", "msgspec", "numpy", "pyarrow", "scipy", "sklearn"):
        if find_spec(name) is None:
            raise CommandError(f"{name} is not installed", hint=install_command("interference"))
