"""Programs as people use them, run in a directory of tmpfs and below the prefix of a store without a mount.

`python tests/prefix_programs.py [NAME…]` runs them and prints how the runs differ.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

SCRIPTS = Path(__file__).parent / "data" / "prefix_programs"
TMPFS = Path("/dev/shm")
PREFIX = "/weir"
_SECONDS_MAX = 600.0
"""Longest time of one script, on a busy machine."""
_TREE = r"""
cd "$1" || exit
find . -mindepth 1 -printf '%P %y %m %l\n' | sort
find . -type f -print0 | sort -z | xargs -0 -r sha256sum
"""
"""What one can see of a tree, but for times and sizes of directories."""


@dataclass(frozen=True)
class Program:
    """A script of `SCRIPTS` that uses one program, or several that belong together.

    The script runs in an empty directory. It prints, and leaves behind, the same wherever the directory is.
    """

    needs: tuple[str, ...]
    """Programs that have to be on the machine."""
    is_tree_compared: bool = True
    """Whether the files that stay are the same in each run: some have times, or paths, in them."""
    is_short: bool = True
    """Whether the test suite has the time for it."""

    def missing(self) -> list[str]:
        """The needed programs that the machine does not have."""
        return [name for name in self.needs if shutil.which(name) is None]


PROGRAMS = {
    "copies": Program(("cp", "install", "diff")),
    "tar": Program(("tar", "gzip", "bzip2", "xz", "zstd")),
    "zip": Program(("zip", "unzip")),
    "rsync": Program(("rsync",)),
    "git": Program(("git",), is_tree_compared=False),
    "sqlite": Program(("sqlite3",)),
    "c-project": Program(("make", "gcc", "ar", "nm", "strip", "objdump")),
    "c++": Program(("g++",), is_short=False),
    "fortran": Program(("gfortran",)),
    "cmake": Program(("cmake", "ninja", "gcc"), is_short=False),
    "venv": Program(("python3",), is_tree_compared=False, is_short=False),
    "numpy": Program(("python3",), is_short=False),
    "h5py": Program(("python3",)),
    "h5dump": Program(("h5dump",)),
    "ncdump": Program(("ncdump", "ncgen")),
    "python": Program(("python3",)),
    "perl": Program(("perl",)),
    "awk": Program(("gawk", "mawk")),
    "sed": Program(("sed",)),
    "sort": Program(("sort", "split", "awk")),
    "find": Program(("find", "xargs", "grep")),
    "editors": Program(("vim", "ed")),
    "patch": Program(("diff", "patch", "m4", "bc", "jq")),
    "languages": Program(("lua", "tclsh")),
    "node": Program(("node",)),
    "java": Program(("java", "javac", "jar"), is_short=False),
    "rust": Program(("rustc",), is_short=False),
    "locks": Program(("flock",)),
    "shells": Program(("bash", "dash", "tee"), is_tree_compared=False),
    "dd": Program(("dd", "fallocate", "shred")),
    "crypto": Program(("openssl", "curl"), is_tree_compared=False),
}


def outcome(name: str, command: Sequence[str | Path], folder: str | Path) -> str:
    """Run a script.

    Args:
        name: Its name in `PROGRAMS`.
        command: The words before a command that runs where the directory is.
        folder: The directory, which is made.

    Returns:
        The output, the exit code, and the tree that stays. The directory's name is replaced.
    """
    text = (SCRIPTS / f"{name}.sh").read_text()
    environment = os.environ | {
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "HOME": str(folder),
        "SOURCE_DATE_EPOCH": "1000000000",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "GIT_CONFIG_NOSYSTEM": "1",
        "RUSTUP_HOME": os.environ.get("RUSTUP_HOME", str(Path.home() / ".rustup")),
        "CARGO_HOME": os.environ.get("CARGO_HOME", str(Path.home() / ".cargo")),
    }
    for who in ("AUTHOR", "COMMITTER"):
        environment |= {
            f"GIT_{who}_NAME": "n",
            f"GIT_{who}_EMAIL": "n@x",
            f"GIT_{who}_DATE": "1000000000 +0000",
        }
    told = []
    for script in (f'mkdir "$1" && cd "$1" || exit\n{text}', _TREE if PROGRAMS[name].is_tree_compared else ""):
        ran = subprocess.run(
            [*command, "bash", "-c", script, "bash", str(folder)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_SECONDS_MAX,
            check=False,
        )
        told.append(f"{ran.stdout.decode(errors='backslashreplace')}exit code {ran.returncode}\n")
    return "".join(told).replace(str(folder), "DIRECTORY")


def difference(name: str, command: Sequence[str | Path], folder: str | Path) -> str:
    """Run a program on tmpfs and in the directory `folder`, to which `command` leads.

    Returns:
        How the runs differ; nothing where they are the same.
    """
    with tempfile.TemporaryDirectory(dir=TMPFS, prefix="programs-") as plain:
        expected = outcome(name, [], Path(plain) / "directory")
    found = outcome(name, command, folder)
    if found == expected:
        return ""
    with tempfile.TemporaryDirectory() as told:
        for side, text in (("tmpfs", expected), ("store", found)):
            (Path(told) / side).write_text(text)
        compared = subprocess.run(
            ["diff", "-u", "--label", "tmpfs", "--label", "store", "tmpfs", "store"],
            cwd=told,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
    return f"{name}:\n{compared.stdout}"


def present(names: Iterable[str]) -> list[str]:
    """The programs among these that the machine has. Those that it lacks are told on standard error."""
    there = []
    for name in names:
        if missing := PROGRAMS[name].missing():
            print(f"{name}: this machine has no {', '.join(missing)}", file=sys.stderr)
        else:
            there.append(name)
    return there


def _main(names: Sequence[str]) -> int:
    import weir

    with tempfile.TemporaryDirectory() as home, weir.store.up(home=Path(home) / "home", mount=False) as store:
        weir_program = str(Path(sys.executable).with_name("weir"))
        command = [weir_program, "--home", str(Path(home) / "home"), "run", "--prefix", PREFIX, "--"]
        found = [difference(name, command, f"{PREFIX}/{name}") for name in present(names or PROGRAMS)]
        store.down(discard=True)
    print("\n".join(filter(None, found)) or "no differences")
    return 1 if any(found) else 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
