"""Compiles all programs at once, and adds manual pages and completions of the shells to the wheel. All else about the
build stands in pyproject.toml."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

from setuptools import setup
from setuptools.errors import CompileError
from setuptools_rust.build import build_rust

# isort: split
# Only setuptools brings distutils in newer Pythons, so it stands first.
from distutils.command.install_data import install_data

_ROOT = Path(__file__).resolve().parent


class BuildTogether(build_rust):
    """One run of cargo for all programs and libraries. A run for each would compile crates again that another one has
    with other features of their dependencies."""

    def build_extension(self, ext):
        """The files of one of them, each with the name that it gets in the wheel."""
        manifests = tuple(str(Path(other.path).resolve()) for other in self.distribution.rust_extensions)
        profile = os.environ.get("SETUPTOOLS_RUST_CARGO_PROFILE", "release")
        files = compiled(manifests, profile)[str(Path(ext.path).resolve())]
        modules = ext.target.values() if ext._uses_exec_binding() else [ext.name]
        return list(zip(modules, files, strict=True)), None


@cache
def compiled(manifests, profile):
    """The programs and libraries of packages, by their manifests."""
    names = [tomllib.loads(Path(manifest).read_text())["package"]["name"] for manifest in manifests]
    command = ["cargo", "build", "--locked", f"--profile={profile}", *(f"--package={name}" for name in names)]
    if profile == "dev":
        # As the tests of all crates have the core, so that it is compiled once for these and for the package.
        command.append("--features=weir-core/world")
    told = [*command, "--message-format=json-render-diagnostics"]
    built = subprocess.run(told, cwd=_ROOT, stdout=subprocess.PIPE, check=False)
    if built.returncode:
        raise CompileError(f"`{' '.join(command)}` failed; its messages stand above")
    files = {manifest: [] for manifest in manifests}
    for message in map(json.loads, built.stdout.splitlines()):
        kinds = set(message.get("target", {}).get("kind", ()))
        if kinds & {"bin", "cdylib"} and message.get("manifest_path") in files:
            files[message["manifest_path"]] += message["filenames"]
    return files


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
setup(cmdclass={"build_rust": BuildTogether, "install_data": InstallDocuments}, data_files=[("share", [])])
