"""The packages that `weir interference` needs."""

from importlib.util import find_spec

from weir.cli.common.errors import CommandError
from weir.distribution import install_command

_ALL = ("lightgbm", "msgspec", "numpy", "pyarrow", "scipy", "sklearn")


def needed(*names: str) -> None:
    """Refuse where a package of the extra is missing.

    Args:
        names: Names of modules; none is all of the extra.

    Raises:
        CommandError: One is missing.
    """
    for name in names or _ALL:
        if find_spec(name) is None:
            raise CommandError(f"{name} is not installed", hint=install_command("interference"))
