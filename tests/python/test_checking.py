"""The comparison of files with objects, and the command line of quotas, without a store."""

import itertools
import random

import pytest
from click.testing import CliRunner
from seeds import seed
from weir.cli import weir
from weir.store.answers import FileEntry, Inventory, ObjectEntry, Place, Quota, WantedObject
from weir.store.checking import LOST, MISPLACED, ORPHAN, SHORT, compare, paths_of
from weir.store.quotas import merge

HOME = 1 << 48


def file(ino: int, *objects: tuple[str, int | None], former: tuple[str, ...] = (), changing: bool = False) -> FileEntry:
    return FileEntry(ino, 1, tuple(WantedObject(*each) for each in objects), former, changing)


def inventory(files: list[FileEntry], *objects: tuple[str, int, int]) -> Inventory:
    return Inventory(tuple(ObjectEntry(*each) for each in objects), tuple(files))


def kinds(*arguments: dict[int, Inventory]) -> list[tuple[str, str, int]]:
    return [finding.key for finding in compare(*arguments)]


def test_each_kind_of_difference_is_found() -> None:
    files = [
        file(10, ("0.0", 5), ("0.1", 5)),
        file(11, ("0.0", 9), ("0.1", None)),
        file(12, ("0.1", 9), former=("1.0",)),
        file(13, ("0.1", 9), changing=True),
    ]
    objects = [("0.0", 10, 5), ("0.0", 11, 8), ("0.1", 12, 9), ("0.1", 13, 0), ("0.1", 99, 1), ("0.0", 12, 9)]
    looks = {0: inventory(files, *objects), 1: inventory([], ("1.0", 12, 3), ("1.0", 13, 3), ("1.0", HOME + 1, 1))}
    assert kinds(looks) == [
        (SHORT, "0.0", 11),
        (MISPLACED, "0.0", 12),
        (LOST, "0.1", 10),
        (ORPHAN, "0.1", 99),
        (ORPHAN, "1.0", HOME + 1),
    ]


def test_parts_of_servers_that_did_not_answer_are_not_judged() -> None:
    look = inventory([file(10, ("0.0", 5), ("1.0", 5))], ("0.0", 10, 5), ("0.0", HOME + 1, 5))
    assert kinds({0: look}) == []


def test_a_file_that_grows_or_is_made_between_two_looks_is_no_finding() -> None:
    """An object is listed before its file, so the size of the look before is the one that it must have."""
    before = {0: inventory([file(10, ("0.0", 5))], ("0.0", 10, 5))}
    now = {0: inventory([file(10, ("0.0", 9)), file(11, ("0.0", 9))], ("0.0", 10, 7))}
    assert kinds(now, before) == []
    cut = {0: inventory([file(10, ("0.0", 2))], ("0.0", 10, 2))}
    assert kinds(cut, before) == []
    assert kinds({0: inventory([file(10, ("0.0", 9))], ("0.0", 10, 4))}, before) == [(SHORT, "0.0", 10)]


def test_a_whole_store_is_clean_and_every_single_damage_is_found() -> None:
    draw = random.Random(seed())
    targets = [f"{server}.{index}" for server in range(3) for index in range(2)]
    files: dict[int, list[FileEntry]] = {server: [] for server in range(3)}
    objects: list[tuple[str, int, int]] = []
    for number, server in itertools.product(range(20), range(3)):
        ino = (server << 48) + 100 + number
        chosen = draw.sample(targets, draw.randint(1, 4))
        wanted = [(target, draw.choice([None, draw.randint(1, 100)])) for target in chosen]
        files[server].append(file(ino, *wanted))
        objects += [(target, ino, (least or 0) + draw.randint(0, 9)) for target, least in wanted]

    def looks(kept: list[tuple[str, int, int]]) -> dict[int, Inventory]:
        of = {server: [each for each in kept if each[0].startswith(f"{server}.")] for server in files}
        return {server: inventory(files[server], *of[server]) for server in files}

    assert kinds(looks(objects)) == []
    must = {
        (wanted.target, entry.ino): wanted.bytes_min
        for entry in itertools.chain(*files.values())
        for wanted in entry.objects
    }
    for place, (target, ino, _) in enumerate(objects):
        least = must[target, ino]
        without = objects[:place] + objects[place + 1 :]
        assert kinds(looks(without)) == ([(LOST, target, ino)] if least else [])
        cut = [*without, (target, ino, (least or 1) - 1)]
        assert kinds(looks(cut)) == ([(SHORT, target, ino)] if least else [])


def test_paths_lead_over_the_directories_of_several_servers() -> None:
    above = {(1, HOME + 7): Place(HOME + 7, "spread/inner", 2 * HOME + 9, 0), (0, 2 * HOME + 9): Place(9, "top", 1, 0)}
    places = [Place(10, "a/b", 1, 0), Place(HOME + 11, "c", HOME + 7, 1), Place(12, "d", 5 * HOME, 2)]
    assert paths_of(places, lambda server, ino: above.get((server, ino))) == {
        10: "/a/b",
        HOME + 11: "/top/spread/inner/c",
        12: f"inode {5 * HOME}/d",
    }


def test_paths_of_directories_in_a_ring_end() -> None:
    ring = Place(HOME + 7, "x", HOME + 7, 1)
    (path,) = paths_of([Place(HOME + 8, "file", HOME + 7, 1)], lambda server, ino: ring).values()
    assert path.endswith("x/file")


def test_the_use_of_an_owner_is_the_sum_over_servers() -> None:
    one = [Quota("user", None, 0, 0, 0, 5, None, True), Quota("user", 7, 10, 1, 3, 5, None, False)]
    other = [Quota("group", 7, 1, 1, 0, None, None, False), Quota("user", 7, 4, 2, 1, 5, None, False)]
    merged = merge([one, other])
    assert [(each.kind, each.id, each.bytes, each.inodes, each.unpublished_bytes) for each in merged] == [
        ("user", None, 0, 0, 0),
        ("user", 7, 14, 3, 4),
        ("group", 7, 1, 1, 0),
    ]
    assert merged[1].bytes_max == 5


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), "give one of --user"),
        (("--user", "1", "--group", "1", "--bytes", "1"), "give one of --user"),
        (("--user", "1"), "give --bytes, --inodes or both"),
        (("--user", "1", "--bytes", "1", "--unset"), "give --bytes, --inodes or both"),
        (("--user", "nobody-of-this-name", "--bytes", "1"), "there is no user `nobody-of-this-name`"),
        (("--user", "4294967295", "--bytes", "1"), "there is no user `4294967295`"),
        (("--user", "1", "--bytes", "many"), "Invalid value for '--bytes'"),
        (("--every-user", "--inodes", "-1"), "`-1` is no number"),
    ],
)
def test_wrong_limits_are_refused_before_any_server_is_asked(options: tuple[str, ...], told: str) -> None:
    answer = CliRunner().invoke(weir, ["--home", "/nowhere", "quota", "set", *options])
    assert answer.exit_code == 2
    assert told in answer.output


def test_a_journal_of_a_running_store_is_not_read_past_a_loss() -> None:
    answer = CliRunner().invoke(weir, ["--home", "/nowhere", "fsck", "--accept-journal-loss"])
    assert answer.exit_code == 2
    assert "--offline" in answer.output
