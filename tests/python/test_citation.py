"""The citation file: it is valid, and says of the package what the package says of itself."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
KINDS = {"software", "dataset"}
REFERENCES = {"article", "conference-paper", "software"}
REQUIRED = {"cff-version", "message", "title", "authors"}
"""Keys that the Citation File Format 1.2.0 requires; of a reference `type`, `title` and `authors`."""
DOI = re.compile(r"10\.\d{4,9}/\S+")


@pytest.fixture
def citation() -> Any:
    return yaml.safe_load((ROOT / "CITATION.cff").read_text())


def test_the_file_has_what_its_format_requires(citation: Any) -> None:
    assert citation.keys() >= REQUIRED
    assert citation["cff-version"] == "1.2.0"
    assert citation["type"] in KINDS
    assert all(isinstance(citation[name], str) for name in ("message", "title", "version", "license", "abstract"))
    for entry in (citation, *citation["references"]):
        for author in entry["authors"]:
            assert author.keys() in ({"name"}, {"family-names", "given-names"}), author


def test_it_describes_this_package(citation: Any) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert citation["version"] == project["version"]
    assert citation["license"] == project["license"]


def test_each_paper_that_weir_builds_on_is_a_reference(citation: Any) -> None:
    """The page of the papers names the first author and the DOI of each."""
    page = (ROOT / "docs/papers.md").read_text()
    references = citation["references"]
    assert len(references) == len(list((ROOT / "benchmarks/papers").glob("*.toml"))), "a paper is missing"
    for reference in references:
        assert reference["type"] in REFERENCES
        assert reference["authors"][0]["family-names"] in page
        assert isinstance(reference["year"], int)
        if "doi" in reference:
            assert DOI.fullmatch(reference["doi"])
            assert reference["doi"] in page


def test_the_readme_says_how_to_cite() -> None:
    assert "CITATION.cff" in (ROOT / "README.md").read_text()
