"""Adds manual pages and completions of the shells to the wheel. All else about the build stands in pyproject.toml."""

import shutil
import sys
from pathlib import Path

from setuptools import setup

# isort: split
# Only setuptools brings distutils in newer Pythons, so it stands first.
from distutils.command.install_data import install_data

_ROOT = Path(__file__).resolve().parent


class InstallDocuments(install_data):
    """Makes the documents from the commands of the sources, and installs them below `share`."""

    def run(self) -> None:
        """Make and install them."""
        sys.path[:0] = [str(_ROOT / "python"), str(_ROOT / "packaging")]
        import documents
        from weir.cli import weir

        share = Path(self.get_finalized_command("build").build_base).absolute() / "share"
        shutil.rmtree(share, ignore_errors=True)
        documents.write(share, weir, self.distribution.get_version())
        files = sorted(path for path in share.rglob("*") if path.is_file())
        self.data_files = [(str(path.parent.relative_to(share.parent)), [str(path)]) for path in files]
        super().run()


# The command finds the files itself; without any it would not run.
setup(cmdclass={"install_data": InstallDocuments}, data_files=[("share", [])])
