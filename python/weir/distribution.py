"""The distribution that this package is installed from: its version, and the packages of its extras.

The distribution is called `weir-hpc`, because `weir` on PyPI is another project.
"""

NAME = "weir-hpc"
"""Name of the distribution."""


def version() -> str:
    """Find the version of this package.

    Returns:
        The version, such as `0.1.0`.

    Raises:
        importlib.metadata.PackageNotFoundError: The package was not installed.
    """
    from importlib import metadata

    return metadata.version(NAME)


def install_command(extra: str) -> str:
    """Make the command that installs the packages of an extra.

    Args:
        extra: Name of the extra, such as `adaptive`.

    Returns:
        The command, with the packages by name: it is right wherever this distribution came from. In sources that were
        not installed, it installs them with the extra.
    """
    import re
    import shlex
    from importlib import metadata

    wanted = re.compile(rf"""^(?P<package>[^;]+);\s*extra\s*==\s*["']{re.escape(extra)}["']$""")
    try:
        lines = metadata.requires(NAME) or []
    except metadata.PackageNotFoundError:
        return f"pip install '.[{extra}]'"
    found = [match["package"].strip() for line in lines if (match := wanted.match(line))]
    return shlex.join(["pip", "install", *found])
