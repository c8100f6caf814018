"""Where figures come from: the machine, the version and the commit that they were measured with."""

import json
import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path

from weir.distribution import NAME, version

_GIT_SECONDS_MAX = 10.0
_PROCESSORS = Path("/proc/cpuinfo")


def machine() -> str:
    """Name this machine.

    Returns:
        Number and model of its processors, and the version of Linux.
    """
    lines = _PROCESSORS.read_text().splitlines() if _PROCESSORS.exists() else []
    models = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return f"{os.cpu_count()} cores of {next(models, platform.processor())}, Linux {platform.release()}"


def commit(folder: Path | None = None) -> str:
    """Find the commit of the sources of this package.

    Args:
        folder: A folder of the sources; None is the one that this package lies in.

    Returns:
        The commit of the checkout around the folder, with `-dirty` where files differ from it; else that from which pip
        installed the package (PEP 610); empty where neither is known.
    """
    sources = _sources(folder or Path(__file__).resolve().parent)
    return _pip_commit() if sources is None else _git_commit(sources)


def installed_version() -> str:
    """Find the version of this package; empty in sources that were not installed."""
    try:
        return version()
    except metadata.PackageNotFoundError:
        return ""


def _sources(folder: Path) -> Path | None:
    """The root of Weir's sources around a folder; another project that has Weir in an environment is none."""
    for each in (folder, *folder.parents):
        project = each / "pyproject.toml"
        if project.is_file() and f'name = "{NAME}"' in project.read_text(errors="replace"):
            return each
    return None


def _git_commit(sources: Path) -> str:
    words = ["git", "describe", "--always", "--dirty"]
    try:
        answer = subprocess.run(
            words, cwd=sources, capture_output=True, text=True, timeout=_GIT_SECONDS_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout.strip()


def _pip_commit() -> str:
    try:
        text = metadata.distribution(NAME).read_text("direct_url.json")
        return str(json.loads(text or "{}").get("vcs_info", {}).get("commit_id", ""))
    except (metadata.PackageNotFoundError, ValueError, AttributeError):
        return ""
