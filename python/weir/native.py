"""The places of the programs and the preload library.

The places are those of an installed wheel, of an editable install, and of a source tree that cargo has built.
"""

import os
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from weir.errors import WeirError

_PACKAGE = Path(__file__).resolve().parent
_VERSION_SECONDS = 60.0
"""Longest time until a program has told its version, on a busy machine."""


class NotInstalledError(WeirError):
    """A program or library of this package is missing."""


def server_program() -> Path:
    """Find the program `weir-server`.

    Raises:
        NotInstalledError: The program is in none of the places where an install puts it.
    """
    return _find("weir-server", _program_folders())


def server_version() -> str:
    """Ask the program `weir-server` for its version.

    Raises:
        NotInstalledError: The program is missing, or does not tell.
    """
    import subprocess

    program = server_program()
    try:
        answer = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=_VERSION_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise NotInstalledError(f"{program} does not tell its version: {error}") from error
    return answer.stdout.split()[-1]


def mount_program() -> Path:
    """Find the program `weir-mount`.

    Raises:
        NotInstalledError: The program is in none of the places where an install puts it.
    """
    return _find("weir-mount", _program_folders())


def mover_program() -> Path:
    """Find the program `weir-move`.

    Raises:
        NotInstalledError: The program is in none of the places where an install puts it.
    """
    return _find("weir-move", _program_folders())


def preload_library() -> Path:
    """Find the library that `weir run` puts into LD_PRELOAD.

    Raises:
        NotInstalledError: The library is in none of the places where an install puts it.
    """
    return _find("libweir_preload*.so", _library_folders())


def _program_folders() -> Iterator[Path]:
    """Folders of programs, the likeliest first."""
    yield from _chosen_folder()
    # <prefix>/lib/pythonX.Y/site-packages/weir: the scripts of the same install, also with `pip install --user`.
    if len(_PACKAGE.parents) > 3:
        yield _PACKAGE.parents[3] / "bin"
    yield Path(sysconfig.get_path("scripts"))
    yield from _cargo_folders()


def _library_folders() -> Iterator[Path]:
    """Folders of libraries, the likeliest first."""
    yield from _chosen_folder()
    yield _PACKAGE
    yield from _cargo_folders()


def _chosen_folder() -> Iterator[Path]:
    folder = os.environ.get("WEIR_PROGRAMS")
    if folder:
        yield Path(folder)


def _cargo_folders() -> Iterator[Path]:
    """Folders of cargo's results, where this package lies in its source tree."""
    root = _PACKAGE.parents[1]
    if (root / "Cargo.toml").is_file():
        target = Path(os.environ.get("CARGO_TARGET_DIR", root / "target"))
        yield target / "release"
        yield target / "debug"


def _find(pattern: str, folders: Iterator[Path]) -> Path:
    searched = []
    for folder in folders:
        for candidate in sorted(folder.glob(pattern)):
            if candidate.is_file():
                return candidate
        searched.append(str(folder))
    name = pattern.replace("*", "")
    raise NotInstalledError(
        f"{name} is in none of {', '.join(searched)}",
        hint="install the package with `pip install .`, or set WEIR_PROGRAMS",
    )
