"""The page *Placement*: creations that predictions foresaw or not, and moves of stripes, now and in the past."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from weir.room.figures import figure
from weir.room.looks import Look
from weir.room.pages import placement
from weir.room.panels import Link, Mark, Page, Text
from weir.room.sources import Sources
from weir.room.visitors import Role, Visitor
from weir.store.errors import StoreError
from weir.store.home import Home
from weir.store.placement_journal import MOVES, PLACED_RUNS, Move, PlacedRun, note

NOW = time.time()
LIVE = Look("", "10m", round(NOW * 1000))
ADMINISTRATOR = Visitor("root", Role.ADMINISTRATOR, sees_all=True)
BOB = Visitor("bob", Role.VIEWER, sees_all=False)
RUN = PlacedRun(NOW - 60, "node", 7, "solver-7", "ada", "solver", "/work/next.db", 6, 1, 1, 2, ("out.9", "out.10"))
MOVE = Move(NOW - 50, NOW - 90, "node", 8, "root", "drain 0.1", 100, 40, 4, 1, is_over=False)


def nothing_up() -> list[Any]:
    """The search for servers where no store is up."""
    raise StoreError("no store is up", hint="`weir up` starts one")


def sources_of(folder: Path) -> Sources:
    """Sources of a home with the journals of two runs and three movers."""
    folder.chmod(0o700)
    home = Home(folder)
    for run in (RUN, replace(RUN, at=NOW - 30, user="bob", placed=4, missed=0, refused=0, names=())):
        note(home, PLACED_RUNS, run)
    moves = [
        MOVE,
        replace(MOVE, at=NOW - 4, moved_bytes=75),
        replace(MOVE, pid=9, what="rebalance", at=NOW - 3, moved_bytes=100, is_over=True),
        replace(MOVE, pid=10, what="drain 0.2"),
    ]
    for move in moves:
        note(home, MOVES, move)
    return Sources(nothing_up, folder / "history", list, home)


def rows_of(page: Page, name: str) -> list[list[str]]:
    """The rows of a section as texts."""
    (table,) = [panel.table for panel in page.panels if panel.name == name]
    return [] if table is None else [[_text(cell) for cell in row] for row in table.rows]


def _text(cell: Text) -> str:
    return cell.text if isinstance(cell, Link | Mark) else str(cell)


def test_runs_show_what_predictions_hit_and_missed(tmp_path: Path) -> None:
    sources = sources_of(tmp_path)
    page = placement.page(sources, LIVE, ADMINISTRATOR)
    assert [row[1:] for row in rows_of(page, "runs")] == [
        ["solver", "solver-7", "bob", "100.0%", "4", "0", "0", "1", "-"],
        ["solver", "solver-7", "ada", "66.7%", "6", "2", "1", "1", "out.9"],
    ]
    assert ("creations as predicted", "10 of 13") in page.cards
    drawn = figure("predictions", sources, LIVE, ADMINISTRATOR, {})["data"]["values"]
    assert [row["value"] for row in drawn] == [6 / 9, 1.0]


def test_a_viewer_sees_the_names_of_own_runs_alone(tmp_path: Path) -> None:
    sources = sources_of(tmp_path)
    own, other = rows_of(placement.page(sources, LIVE, BOB), "runs")
    assert own[1:4] == ["solver", "solver-7", "bob"]
    assert other[1:4] == ["-", "another job", "-"]
    assert other[-1] == "-"
    assert len(figure("predictions", sources, LIVE, BOB, {})["data"]["values"]) == 1


def test_movers_show_how_far_they_are_and_which_fell_silent(tmp_path: Path) -> None:
    shown = rows_of(placement.page(sources_of(tmp_path), LIVE, ADMINISTRATOR), "moves")
    states = {row[1]: (row[3], row[6]) for row in shown}
    assert states == {
        "drain 0.1": ("at work", "75.0%"),
        "rebalance": ("over", "100.0%"),
        "drain 0.2": ("silent", "40.0%"),
    }


def test_the_past_has_the_runs_and_the_moves_of_then(tmp_path: Path) -> None:
    look = Look("then", "1m", round((NOW - 40) * 1000))
    page = placement.page(sources_of(tmp_path), look, ADMINISTRATOR)
    assert [row[3] for row in rows_of(page, "runs")] == ["ada"]
    assert {row[1]: (row[3], row[6]) for row in rows_of(page, "moves")} == {
        "drain 0.1": ("at work", "40.0%"),
        "drain 0.2": ("at work", "40.0%"),
    }
    earlier = placement.page(sources_of(tmp_path), look.moved(-60), ADMINISTRATOR)
    assert rows_of(earlier, "runs") == rows_of(earlier, "moves") == []


def test_a_home_of_nobody_keeps_no_note(tmp_path: Path) -> None:
    note(Home(tmp_path / "none"), PLACED_RUNS, RUN)
    assert not (tmp_path / "none").exists()
