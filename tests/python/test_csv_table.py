"""Cells of CSV files: no name of a file, job or program becomes a formula of a spreadsheet."""

import ast
import csv
import io
from pathlib import Path

import pytest
from weir.csv_table import CsvTable

PACKAGE = Path(__file__).resolve().parents[2] / "python/weir"


@pytest.mark.parametrize(
    ("cell", "written"),
    [
        ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
        ("+1+1", "'+1+1"),
        ("-2+3", "'-2+3"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("\r=1", "'\r=1"),
        ("\n=1", "'\n=1"),
        ("-", "'-"),
        ("a\r=1", "a\r=1"),
        ("/weir/=1", "/weir/=1"),
        ("-1.5e3", "-1.5e3"),
        (-1.5, "-1.5"),
        (-7, "-7"),
        ("+0.25", "+0.25"),
        (None, ""),
        ("", ""),
    ],
)
def test_a_cell_is_text_or_a_number_and_never_a_formula(cell: object, written: str) -> None:
    file = io.StringIO(newline="")
    CsvTable(file).add([cell, "x"])
    assert list(csv.reader(io.StringIO(file.getvalue(), newline=""))) == [[written, "x"]]


def test_one_module_writes_csv() -> None:
    writers = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
            is_alias = isinstance(node, ast.alias) and node.name in {"writer", "DictWriter"}
            if is_alias or name in {"writerow", "writerows", "DictWriter", "to_csv", "write_csv"}:
                writers.add(str(path.relative_to(PACKAGE)))
    # The exporter of traces has a function of its own of that name, which hands its rows to the table.
    assert writers - {"cli/trace.py", "tracing/export.py"} == {"csv_table.py"}
