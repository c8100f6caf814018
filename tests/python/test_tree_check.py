"""The comparison of what two servers say of a directory: whole trees are clean, and each damage is found."""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import answers
import pytest
from seeds import seed
from weir.store.answers import FolderFault, FolderIdentity, StoppedInventory
from weir.store.folder_check import check_stopped_folders, folders_of
from weir.store.tree_check import CYCLE, DANGLING, DOUBLED, HOME_SHIFT, PARENT, ROOT, UNREACHABLE, judge, with_paths
from weir.store.tree_servers import StoppedServers, check_stopped_tree
from weir.store.trees import AwayEntry, Position, SumFault, Tree

SERVERS = 3


class Model:
    """Directories of several servers: their entries, and the places that they take for their own."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.entries: dict[tuple[int, str], int] = {}
        self.places: dict[int, tuple[int, str]] = {}
        self.changing: set[int] = set()
        self.silent: set[int] = set()
        made = [ROOT]
        for number in range(40):
            parent = draw.choice(made)
            home = parent >> HOME_SHIFT if parent != ROOT and draw.random() < 0.5 else draw.randrange(SERVERS)
            if number < SERVERS:
                parent, home = ROOT, number
            ino, name = (home << HOME_SHIFT) + 100 + number, f"d{number}".encode().hex()
            self.entries[parent, name] = ino
            self.places[ino] = (parent, name)
            if number != SERVERS - 1:
                made.append(ino)

    def crossing(self) -> list[int]:
        """Directories with their entries on other servers."""
        return [ino for ino, (parent, _) in self.places.items() if parent >> HOME_SHIFT != ino >> HOME_SHIFT]

    def crossed(self) -> int:
        """One of them, below which no other is."""
        parents = {parent for parent, _ in self.places.values()}
        return self.draw.choice([ino for ino in self.crossing() if ino not in parents])

    def trees(self) -> dict[int, Tree]:
        return {
            server: Tree(
                len(self.places),
                (),
                tuple(
                    self.entry(parent, name, 0)
                    for (parent, name), ino in self.entries.items()
                    if parent >> HOME_SHIFT == server != ino >> HOME_SHIFT
                ),
                tuple(self.position(ino) for ino in self.crossing() if ino >> HOME_SHIFT == server),
            )
            for server in range(SERVERS)
            if server not in self.silent
        }

    def position(self, ino: int) -> Position:
        parent, name = self.places[ino]
        is_here = parent >> HOME_SHIFT == ino >> HOME_SHIFT
        return Position(ino, parent, name, 7, self.entries.get((parent, name)) == ino if is_here else None)

    def entry(self, parent: int, name: str, expected: int) -> AwayEntry:
        ino, above = self.entries.get((parent, name)), parent
        while above in self.places and self.places[above][0] >> HOME_SHIFT == above >> HOME_SHIFT:
            above = self.places[above][0]
        return AwayEntry(parent, name, ino, above, (ino or expected) in self.changing or expected in self.changing)

    def answers(self, server: int) -> bool:
        return server not in self.silent

    def positions(self, inos: Iterable[int]) -> dict[int, Position]:
        return {ino: self.position(ino) for ino in inos if ino in self.places and self.answers(ino >> HOME_SHIFT)}

    def asked(self, wanted: Sequence[tuple[int, str, int, int]]) -> list[AwayEntry | None]:
        return [
            self.entry(parent, name, ino) if self.answers(parent >> HOME_SHIFT) else None
            for parent, name, ino, _ in wanted
        ]


class Asked:
    """The servers of a model; something may happen before they are asked for entries."""

    def __init__(self, model: Model, before: Callable[[], None] = lambda: None) -> None:
        self.model, self.before = model, before

    @property
    def is_whole(self) -> bool:
        return not self.model.silent

    def answers(self, server: int) -> bool:
        return self.model.answers(server)

    def positions(self, inos: Iterable[int]) -> dict[int, Position]:
        return self.model.positions(inos)

    def entries(self, wanted: Sequence[tuple[int, str, int, int]]) -> list[AwayEntry | None]:
        self.before()
        return self.model.asked(wanted)


def lose_entry(model: Model, ino: int) -> tuple[int, str]:
    place = model.places[ino]
    del model.entries[place]
    return place


def lose_directory(model: Model, ino: int) -> tuple[int, str]:
    return model.places.pop(ino)


def misplace(model: Model, ino: int) -> tuple[int, str]:
    place = model.places[ino]
    model.places[ino] = (ROOT if ino >> HOME_SHIFT else 1 << HOME_SHIFT, "00ff")
    return place


def double(model: Model, ino: int) -> tuple[int, str]:
    other = next(parent for parent in (ROOT, *model.places) if parent >> HOME_SHIFT != ino >> HOME_SHIFT)
    model.entries[other, "00"] = ino
    return other, "00"


def invent(model: Model, _: int) -> tuple[int, str]:
    model.entries[ROOT, "00"] = (9 << HOME_SHIFT) + 5
    return ROOT, "00"


def turn(model: Model, ino: int) -> tuple[int, str]:
    """Puts a directory of another server below one that is itself put into that."""
    other = next(each for each in model.crossing() if each >> HOME_SHIFT != ino >> HOME_SHIFT)
    for below, above in ((ino, other), (other, ino)):
        del model.entries[model.places[below]]
        model.places[below] = (above, "00")
        model.entries[above, "00"] = below
    return model.places[min(ino, other)]


DAMAGES = [
    (UNREACHABLE, lose_entry),
    (DANGLING, lose_directory),
    (DANGLING, invent),
    (PARENT, misplace),
    (DOUBLED, double),
    (CYCLE, turn),
]


@pytest.mark.parametrize(("kind", "damage"), DAMAGES, ids=lambda each: getattr(each, "__name__", each))
def test_a_whole_tree_is_clean_and_each_damage_is_found_alone(
    kind: str, damage: Callable[[Model, int], tuple[int, str]]
) -> None:
    draw = random.Random(seed())
    for _ in range(50):
        model = Model(draw)
        assert judge(model.trees(), Asked(model)) == []
        ino = model.crossed()
        place = damage(model, ino)
        found = judge(model.trees(), Asked(model))
        assert [(each.kind, each.parent, each.name) for each in found] == [(kind, *place)]
        if kind != CYCLE and damage is not invent:
            assert found[0].ino == ino
            # What an operation of the moment leaves behind looks the same.
            model.changing = {ino}
            assert judge(model.trees(), Asked(model)) == []
            model.changing = set()
            model.silent = {place[0] >> HOME_SHIFT}
            assert not any(each.ino == ino for each in judge(model.trees(), Asked(model)))


def test_a_directory_that_moves_between_two_looks_is_no_finding() -> None:
    draw = random.Random(seed())
    for _ in range(50):
        model = Model(draw)
        ino = model.crossed()
        parent, name = model.places[ino]
        trees = model.trees()

        def move(model: Model = model, ino: int = ino, parent: int = parent, name: str = name) -> None:
            if (parent, name) in model.entries:
                model.entries[parent, "ab"] = model.entries.pop((parent, name))
                model.places[ino] = (parent, "ab")

        # Judged by what was seen of the home before the move, and of the entry's server after it.
        stale = {server: replace(tree, away=()) for server, tree in trees.items()}
        stale = {
            server: replace(tree, tops=tuple(top for top in tree.tops if top.ino == ino))
            for server, tree in stale.items()
        }
        assert judge(stale, Asked(model, move)) == []


def test_paths_lead_over_servers_and_a_ring_has_none() -> None:
    model = Model(random.Random(seed()))
    ino = model.crossed()
    place = lose_entry(model, ino)
    (found,) = with_paths(judge(model.trees(), Asked(model)), Asked(model))
    names = [place[1]]
    above = place[0]
    while above != ROOT:
        above, name = model.places[above]
        names.append(name)
    assert found.path == "".join(f"/{bytes.fromhex(name).decode()}" for name in reversed(names))


def test_inventories_of_servers_that_are_down_are_judged_alike() -> None:
    draw = random.Random(seed())
    for kind, damage in DAMAGES[:-1]:
        model = Model(draw)
        place = damage(model, model.crossed())
        inventories = {
            server: StoppedInventory(
                objects=(),
                files=(),
                places=(),
                tree=tree,
                directories=tuple(model.position(ino) for ino in model.places if ino >> HOME_SHIFT == server),
                sums=(SumFault("user", 7, 1, 1, 2, 1),) if server == 1 else (),
                folders=(),
                identities=(),
                notices=(),
            )
            for server, tree in model.trees().items()
        }
        found = check_stopped_tree(inventories, SERVERS).findings
        assert [(each.kind, each.parent, each.name) for each in found] == [(kind, *place), ("sums", None, "user")]
        del inventories[2]
        assert not StoppedServers(inventories, SERVERS).answers(2)


def test_folders_that_fail_or_are_of_another_store_are_findings() -> None:
    sound = replace(answers.status(), targets=(answers.target(),))
    of_one, of_other = (replace(sound, identity=FolderIdentity(store, "1", 1)) for store in ("one", "other"))
    assert folders_of([of_one, of_one, replace(of_one, identity=None)]) == ()
    failed = replace(of_one, targets=(answers.target(), answers.target(target="0.9", trouble="its folder is gone")))
    (found,) = folders_of([failed])
    assert (found.place, found.found) == ("target 0.9", "its folder is gone")
    (found,) = folders_of([of_one, replace(of_other, server=1)])
    assert (found.server, found.place) == (1, "home") and "one" in found.found and "other" in found.found
    fault = FolderFault("target 0.1", "/disk", "it is empty", "mount the disk")
    empty = StoppedInventory((), (), (), Tree(0, (), (), ()), (), (), (), (fault,), ())
    (found,) = check_stopped_folders({0: empty, 1: replace(empty, identities=())})
    assert (found.server, found.place, found.way_out) == (0, "target 0.1", "mount the disk")
