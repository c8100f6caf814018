"""The architecture, its design pages and the glossary: they are short, and every name in them leads somewhere."""

import re
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ARCHITECTURE = ROOT / "ARCHITECTURE.md"
GLOSSARY = ROOT / "docs/glossary.md"
DESIGN = sorted((ROOT / "docs/design").glob("*.md"))
PAGES = [ARCHITECTURE, GLOSSARY, *DESIGN]
ARCHITECTURE_BYTES_MAX = 20_000
"""A plan that fits in a head."""
PAGE_BYTES_MAX = 26_000
"""The depth of one subject."""
SOURCES = re.compile(r"\.(rs|py|pyi|lua|c|sh|md|svg)$")
NOT_A_NAME = re.compile(r"[ <>(){}$=:,]")
_CODE = re.compile(r"`([^`\n]+)`")
_FENCE = re.compile(r"^```.*?^```", re.M | re.S)
_LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
_REQUIREMENT = re.compile(r"[A-Za-z0-9_.-]+")


@cache
def tree() -> frozenset[str]:
    """The paths of all files and folders of the project."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    if listed.returncode != 0:
        pytest.skip("the sources are in no repository, so build outputs cannot be told from them")
    files = [name for name in listed.stdout.splitlines() if (ROOT / name).exists()]
    folders = {str(folder) for name in files for folder in Path(name).parents}
    return frozenset({*files, *folders})


@cache
def endings() -> dict[str, set[str]]:
    """The paths that end in a path, by that ending."""
    found: dict[str, set[str]] = {}
    for path in tree():
        parts = path.split("/")
        for at in range(len(parts)):
            found.setdefault("/".join(parts[at:]), set()).add(path)
    return found


def blocks(text: str) -> Iterator[str]:
    """The paragraphs, items and rows of a page."""
    yield from re.split(r"\n(?=\s*\n|\||- |\d+\. |#)", _FENCE.sub("", text))


def named(block: str) -> list[str]:
    """The names of files and folders of the project in a block."""
    tops = {path.split("/")[0] for path in tree()}
    names = [name.rstrip("/") for name in _CODE.findall(block) if not NOT_A_NAME.search(name)]
    return [
        name
        for name in names
        if not name.startswith(("/", "-", ".", "~"))
        and (SOURCES.search(name) or ("/" in name and name.split("/")[0] in tops))
    ]


def led_to(name: str, folders: list[str]) -> set[str]:
    """The paths that a name leads to: from the root, else from a folder named before it, else as the end of a path."""
    if "*" in name:
        return {name} if any(ROOT.glob(name)) else set()
    if name in tree():
        return {name}
    near = {f"{folder}/{name}" for folder in folders} & tree()
    return near or endings().get(name, set())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_is_named_is_there_and_is_one(page: Path) -> None:
    for block in blocks(page.read_text()):
        folders: list[str] = []
        for name in named(block):
            paths = led_to(name, folders)
            assert len(paths) == 1, f"{page.name}: `{name}` is {sorted(paths) or 'nowhere'}, in: {block.strip()[:80]}"
            path = paths.pop()
            folders.append(path if (ROOT / path).is_dir() else str(Path(path).parent))


def anchors(page: Path) -> set[str]:
    """The fragments of a page's headings, as GitHub makes them."""
    heads = re.findall(r"^#+ (.*)$", _FENCE.sub("", page.read_text()), re.M)
    return {re.sub(r"[^\w\- ]", "", head.strip().lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")], ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in _LINK.findall(_FENCE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, fragment = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name} links to {link}"
        if fragment and target.suffix == ".md":
            assert fragment in anchors(target), f"{page.name} links to {link}"


def test_the_architecture_fits_in_a_head() -> None:
    assert len(ARCHITECTURE.read_bytes()) <= ARCHITECTURE_BYTES_MAX
    for page in DESIGN:
        assert len(page.read_bytes()) <= PAGE_BYTES_MAX, page.name


def test_the_architecture_leads_to_each_design_page_and_back() -> None:
    text = ARCHITECTURE.read_text()
    for page in DESIGN:
        assert f"(docs/design/{page.name}" in text, page.name
        assert "(../../ARCHITECTURE.md)" in page.read_text(), page.name


def test_the_architecture_names_every_crate_and_package() -> None:
    text = ARCHITECTURE.read_text()
    crates = {path.parent for path in (ROOT / "crates").glob("*/Cargo.toml")}
    packages = {path.parent for path in (ROOT / "python/weir").glob("*/__init__.py")}
    for folder in crates | packages:
        assert f"`{folder.relative_to(ROOT)}`" in text, folder.name


def test_each_dependency_has_its_reason() -> None:
    page = (ROOT / "docs/design/dependencies.md").read_text()
    crates = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["dependencies"]
    python = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = python["project"]
    wanted = [*project["dependencies"], *python["build-system"]["requires"]]
    wanted += [each for extra in project["optional-dependencies"].values() for each in extra]
    names = {match[0] for each in wanted if (match := _REQUIREMENT.match(each)) and not each.startswith("weir")}
    names |= {name for name in crates if not name.startswith("weir-")}
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []
