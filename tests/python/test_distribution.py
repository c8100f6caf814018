"""The hints that name packages are those of pyproject.toml."""

import shlex
import tomllib
from pathlib import Path

import pytest
from weir import distribution

PROJECT = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize("extra", sorted(PROJECT["optional-dependencies"]))
def test_the_command_installs_the_packages_of_the_extra(extra: str) -> None:
    command = shlex.split(distribution.install_command(extra))
    assert command[:2] == ["pip", "install"]
    assert sorted(command[2:]) == sorted(PROJECT["optional-dependencies"][extra])


def test_sources_that_are_not_installed_have_a_hint_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distribution, "NAME", "weir-that-is-not-installed")
    assert distribution.install_command("zarr") == "pip install '.[zarr]'"


def test_the_name_and_the_version_are_those_of_the_project() -> None:
    assert (distribution.NAME, distribution.version()) == (PROJECT["name"], PROJECT["version"])
