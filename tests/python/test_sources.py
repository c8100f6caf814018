"""Circles between the files of a crate, and the lengths of functions, outside tests."""

from functools import cache
from pathlib import Path

import pytest
from rust_sources import Crate, circles, functions, python_functions, shortest_way

ROOT = Path(__file__).resolve().parents[2]

FUNCTION_LINES_MAX = 70
"""A longer function mixes its branches with what happens in them (a docstring does not count)."""

FILES_IN_CIRCLES = {
    "fairshare": 2,
    "mount": 9,
    "refactor": 8,
    "wire": 5,
}
"""At most so many files of a crate lie in circles; other crates have none. No number is raised.

`python tests/rust_sources.py crates/NAME` prints the circles of a crate, and what makes each of their arrows.
"""

crate = cache(Crate)


@pytest.mark.parametrize(
    "folder", sorted(path.parent for path in ROOT.glob("crates/*/Cargo.toml")), ids=lambda path: path.name
)
def test_files_depend_in_one_direction(folder: Path) -> None:
    arrows = crate(folder).arrows()
    found = circles(arrows)
    files = sum(map(len, found))
    allowed = FILES_IN_CIRCLES.get(folder.name, 0)
    assert files <= allowed, "\n".join(
        [
            f"{files} files lie in circles, {allowed} may; see `python tests/rust_sources.py crates/{folder.name}`",
            *(f"{', '.join(sorted(circle))}: as in {shortest_way(arrows, circle)}" for circle in found),
        ]
    )


def lengths() -> dict[str, int]:
    """The longest function of each name in each crate and each Python file."""
    found: dict[str, int] = {}
    for manifest in ROOT.glob("crates/*/Cargo.toml"):
        for module in crate(manifest.parent).modules.values():
            for name, lines in functions(module.code):
                key = f"crates/{manifest.parent.name}: {name}"
                found[key] = max(lines, found.get(key, 0))
    for folder in ("python", "benchmarks", "examples"):
        for path in (ROOT / folder).rglob("*.py"):
            for name, lines in python_functions(path.read_text()):
                key = f"{path.relative_to(ROOT)}: {name}"
                found[key] = max(lines, found.get(key, 0))
    return found


def test_functions_are_short() -> None:
    """STYLE 9: functions stay under about 70 lines."""
    assert {name: lines for name, lines in lengths().items() if lines > FUNCTION_LINES_MAX} == {}


def test_each_file_of_tests_has_tests() -> None:
    """An emptied file is collected without a word."""
    files = [path for path in (ROOT / "tests").rglob("test_*.py") if path.parent.name != "data"]
    assert len(files) > 100
    assert [path.name for path in files if "def test_" not in path.read_text()] == []


SOURCES = {
    "lib.rs": """
        //! use crate::never::Read;
        mod upper;
        mod lower;
        mod folder;
        mod state;
        mod work;
        pub use lower::Lower;
        #[cfg(test)]
        mod tests { use crate::upper; }
    """,
    "upper.rs": """
        use crate::{folder::{self, inner::Inner as Kept}, Lower};
        fn long<'a>(text: &'a str) -> char {
            let brace = '}';
            let text = r#"crate::work::Work } "#;
            brace
        }
        mod nested { fn two() { super::super::work::begin([0u8; 3]); } }
    """,
    "lower.rs": "pub struct Lower; #[cfg(test)] mod tests { use crate::upper::long; }",
    "folder.rs": "mod inner; pub(crate) use inner::Shown; pub struct Owner; fn make() { inner::make(); }",
    "folder/inner.rs": "use super::Owner; pub struct Inner; pub struct Shown;",
    "state.rs": "pub struct State; impl State { fn first(&self) { self.second() } }",
    "work.rs": "use crate::state::State; use crate::folder::Shown; impl State { fn second(&self) {} }",
}


@pytest.fixture
def small_crate(tmp_path: Path) -> Path:
    for name, text in SOURCES.items():
        path = tmp_path / "src" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_arrows_follow_names_to_where_they_are_defined(small_crate: Path) -> None:
    arrows = {start: set(targets) for start, targets in Crate(small_crate).arrows().items()}
    assert arrows == {
        "lib.rs": set(),
        "upper.rs": {"folder.rs", "folder/inner.rs", "lower.rs", "work.rs"},
        "lower.rs": set(),
        "folder.rs": {"folder/inner.rs"},
        "folder/inner.rs": set(),
        "state.rs": {"work.rs"},
        "work.rs": {"state.rs", "folder/inner.rs"},
    }
    assert circles(arrows) == [{"state.rs", "work.rs"}]
    assert "state.rs -> work.rs" in shortest_way(arrows, {"state.rs", "work.rs"})


def test_a_function_is_as_long_as_its_body(small_crate: Path) -> None:
    modules = Crate(small_crate).modules
    assert dict(functions(modules["upper",].code)) == {"long": 5, "two": 1}
    assert dict(functions(modules["lower",].code)) == {}
    assert dict(python_functions('def one():\n    """Words.\n\n    More words.\n    """\n    return 1\n')) == {"one": 2}
