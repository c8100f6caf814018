"""Codes of findings that tests provoke for real, and those of them that are found in every test that names them."""

import ast
from pathlib import Path

from _harness import OUT, ROOT, announce
from _tests import outcomes
from weir.health import CODES

_FILES = ("tests/python/test_health.py", "tests/end_to_end/test_health_on_hosts.py")


def measure(_directory: Path) -> dict[str, float]:
    """Run the tests, and count codes."""
    passed = outcomes(_FILES, OUT / "room-findings.log")
    named = {f"{file}::{name}": codes for file in _FILES for name, codes in _codes_of(file).items()}
    provoked = {code for name in passed for code in named.get(name, ())}
    wrong = {code for name, is_right in passed.items() if not is_right for code in named.get(name, ())}
    right = len(provoked - wrong)
    announce("findings right", f"{right} of {len(provoked)}", f"{len(CODES)} codes there are", right / len(provoked))
    return {"findings_provoked": float(len(provoked)), "findings_right": float(right), "findings": float(len(CODES))}


def _codes_of(file: str) -> dict[str, set[str]]:
    """The codes that each test of a file names, itself or in a function of the file that it calls."""
    functions = [each for each in ast.parse((ROOT / file).read_text()).body if isinstance(each, ast.FunctionDef)]
    own = {each.name: _words_of(each) for each in functions}
    return {
        name: {code for each in (name, *words) for code in own.get(each, ()) if code in CODES}
        for name, words in own.items()
    }


def _words_of(function: ast.FunctionDef) -> set[str]:
    """The names and the texts in a function."""
    found = set()
    for each in ast.walk(function):
        if isinstance(each, ast.Name):
            found.add(each.id)
        elif isinstance(each, ast.Constant) and isinstance(each.value, str):
            found.add(each.value)
    return found
