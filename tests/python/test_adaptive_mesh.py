"""Values on the nodes of a mesh: stored so that neighbours are near, handed out in the order of the nodes."""

from pathlib import Path
from typing import Any

import numpy
import pytest
from numpy.typing import NDArray
from weir import adaptive
from weir.adaptive.mesh import NodeOrder

Array = NDArray[Any]
ROWS = 40
NODES = ROWS * ROWS


@pytest.fixture(scope="module")
def mesh() -> tuple[Array, Array]:
    """Triangles of a plane whose nodes are numbered in no order, and the nodes' coordinates."""
    draw = numpy.random.default_rng(5)
    numbers = draw.permutation(NODES).reshape(ROWS, ROWS)
    corners = [numbers[:-1, :-1], numbers[1:, :-1], numbers[:-1, 1:], numbers[1:, 1:]]
    upper, lower = (numpy.stack([corners[each].ravel() for each in three], axis=1) for three in ((0, 1, 2), (3, 1, 2)))
    coordinates = numpy.empty((NODES, 2))
    rows, columns = numpy.mgrid[0:ROWS, 0:ROWS]
    coordinates[numbers.ravel()] = numpy.stack([rows.ravel(), columns.ravel()], axis=1) + draw.uniform(0, 0.2)
    return numpy.concatenate([upper, lower]), coordinates


@pytest.fixture
def tiers(tmp_path: Path) -> list[str]:
    return [str(tmp_path / "fast"), str(tmp_path / "shared")]


def values_at(coordinates: Array, step: int) -> Array:
    smooth: Array = numpy.sin(coordinates[:, 0] / 7 + step) * numpy.cos(coordinates[:, 1] / 9)
    return smooth.astype(numpy.float32)


@pytest.mark.parametrize("kind", ["cells", "coordinates", "order"])
def test_values_on_a_mesh_come_back_in_the_order_of_its_nodes(
    tiers: list[str], mesh: tuple[Array, Array], kind: str
) -> None:
    cells, coordinates = mesh
    steps = [values_at(coordinates, step) for step in range(3)]
    given: Any = {"cells": cells, "coordinates": coordinates, "order": NodeOrder.from_coordinates(coordinates)}[kind]
    adaptive.write(tiers, steps[:2], exact=True, mesh=given, chunk_bytes=1 << 10)
    adaptive.write(tiers, steps[2:], exact=True, append=True, chunk_bytes=1 << 10)
    for step, expected in zip(adaptive.open(tiers), steps, strict=True):
        assert numpy.array_equal(step.data, expected)
    assert len(list(Path(tiers[0]).glob("mesh.*.weir"))) == 1, "stored once"


def test_neighbours_that_stand_together_take_fewer_bytes(tmp_path: Path, mesh: tuple[Array, Array]) -> None:
    cells, coordinates = mesh
    sizes = {}
    for name, given in (("none", None), ("cells", cells), ("coordinates", coordinates)):
        with adaptive.Writer(tmp_path / name, tolerance=1e-3, mesh=given) as writer:
            sizes[name] = writer.write(values_at(coordinates, 0)).total_bytes
    assert sizes["coordinates"] < 0.5 * sizes["none"]
    assert sizes["cells"] < sizes["none"]


def test_the_base_of_a_mesh_is_as_near_as_it_says(tiers: list[str], mesh: tuple[Array, Array]) -> None:
    _, coordinates = mesh
    field = values_at(coordinates, 0)
    adaptive.write(tiers, [field], mesh=coordinates, chunk_bytes=1 << 10)
    step = next(adaptive.open(tiers, policy="isolation"))
    assert 0 < numpy.abs(step.data - field).max() <= step.max_error


def test_what_does_not_fit_a_mesh_is_refused(tiers: list[str], mesh: tuple[Array, Array]) -> None:
    cells, coordinates = mesh
    field = values_at(coordinates, 0)
    with pytest.raises(adaptive.StepError, match=r"step 0: .*\(40, 40\) is not one value for each"):
        adaptive.write(tiers, [field.reshape(ROWS, ROWS)], mesh=coordinates)
    with pytest.raises(adaptive.StepError, match=r"step 0: .* join nodes 0 to 1599, and there are nodes 0 to 9"):
        adaptive.write(tiers, [field[:10]], mesh=cells)
    adaptive.write(tiers, [field], mesh=coordinates)
    with pytest.raises(adaptive.StepError, match=r"step 1: .*\(10,\) is not one value"):
        adaptive.write(tiers, [field[:10]], append=True)
    with pytest.raises(adaptive.AdaptiveError, match="begun on another mesh, of 1600 nodes"):
        adaptive.Writer(tiers, append=True, mesh=coordinates[::-1].copy())
    with pytest.raises(adaptive.AdaptiveError, match="values on a mesh have no regions"):
        adaptive.open(tiers, region=(slice(0, 10),))


def test_a_stream_without_a_mesh_gets_none(tiers: list[str], mesh: tuple[Array, Array]) -> None:
    _, coordinates = mesh
    adaptive.write(tiers, [values_at(coordinates, 0)])
    with pytest.raises(adaptive.AdaptiveError, match="begun without a mesh"):
        adaptive.Writer(tiers, append=True, mesh=coordinates)


@pytest.mark.parametrize("how", ["gone", "damaged", "another"])
def test_an_order_that_is_lost_is_told(tiers: list[str], mesh: tuple[Array, Array], how: str) -> None:
    _, coordinates = mesh
    adaptive.write(tiers, [values_at(coordinates, 0)], mesh=coordinates)
    (path,) = Path(tiers[0]).glob("mesh.*.weir")
    if how == "gone":
        path.unlink()
    elif how == "damaged":
        path.write_bytes(path.read_bytes()[:100])
    else:
        path.write_bytes(NodeOrder.from_coordinates(coordinates[:100]).to_bytes())
    with pytest.raises(adaptive.AdaptiveError, match=str(path)):
        adaptive.open(tiers)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: NodeOrder.from_connectivity([[0, 1, 99]], nodes=10), "nodes 0 to 99, and there are nodes 0 to 9"),
        (lambda: NodeOrder.from_connectivity([[0, -1, 2]], nodes=10), "nodes -1 to 2"),
        (lambda: NodeOrder.from_connectivity([[0.5, 1.0]], nodes=10), "whole numbers|numbers of nodes"),
        (lambda: NodeOrder.from_coordinates(numpy.empty((0, 2))), "coordinates are finite numbers"),
        (lambda: NodeOrder.from_coordinates([[0.0, numpy.nan]]), "coordinates are finite numbers"),
        (lambda: NodeOrder.from_bytes(NodeOrder(numpy.array([7], "u8")).to_bytes()), "no whole order of nodes"),
        (lambda: NodeOrder.from_bytes(NodeOrder(numpy.array([0, 2, 2], "u8")).to_bytes()), "no whole order of nodes"),
        (lambda: NodeOrder.from_coordinates([[0.0], [1.0]]).arrange(numpy.zeros(5)), "one value for each"),
        (lambda: NodeOrder.from_coordinates([[0.0], [1.0]]).values(numpy.zeros(5)), "was not arranged by this order"),
        (lambda: NodeOrder.of(numpy.array(["a"]), nodes=1), "a mesh is cells x corners or nodes x axes"),
    ],
)
def test_orders_that_make_no_sense_are_refused(make: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()
