"""Refactored arrays: real fields, what is promised of them, and where they are stored."""

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from weir import _core
from weir.adaptive import hdf5, zarr
from weir.adaptive.array import restore
from weir.adaptive.mesh import NodeOrder

DATA = Path(__file__).parents[1] / "data"
FIELDS = DATA / "fields"
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
NAMES = ["wmag_91", "vort_41x128x128", "vort2d_512", "echam_t_17x96x192"]


def field(name: str) -> Any:
    return np.load(FIELDS / f"{name}.npy")


def psnr(original: Any, restored: Any) -> float:
    error = np.sqrt(np.mean((restored.astype(np.float64) - original) ** 2))
    return float(20 * np.log10(np.ptp(original) / error))


@pytest.mark.parametrize("name", NAMES)
def test_a_few_bytes_of_a_real_field_are_much(name: str) -> None:
    original = field(name)
    container = _core.refactor(original, threads=2)
    header = _core.Refactored(container)
    assert header.shape == list(original.shape)
    assert header.dtype == "float32"
    # The least of the four fields, a decibel below what was measured.
    for part, least in [(0.01, 37), (0.05, 49), (0.25, 87)]:
        restored = restore(container[: int(part * original.nbytes)])
        assert psnr(original, restored.data) > least
        error = np.abs(restored.data.astype(np.float64) - original)
        assert error.max() <= restored.max_error
        assert np.sqrt(np.mean(error**2)) <= restored.rmse
    for offset, length, rmse, max_error in header.chunks:
        restored = restore(container[: offset + length])
        assert (restored.rmse, restored.max_error) == (rmse, max_error)


def generated(name: str) -> Any:
    random = np.random.default_rng(5)
    match name:
        case "white noise":
            return random.standard_normal((64, 64, 64)).astype(np.float32)
        case "walk":
            return np.cumsum(random.standard_normal(200_000))
        case "peak":
            axis = np.linspace(-1, 1, 70)
            return np.exp(-20 * (axis**2 + axis[:, None] ** 2 + axis[:, None, None] ** 2)).astype(np.float32)
        case "packed":
            return np.round(field("echam_t_17x96x192"), 1)
        case "bytes":
            return np.clip(128 + 2 * random.standard_normal((300, 400)).cumsum(0), 0, 255).astype(np.uint8)
        case "tiles":
            return np.tile(field("wmag_91")[:40], (1, 2, 3))
        case _:
            return field(name)


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["planes", "decimate"])
@pytest.mark.parametrize("name", [*NAMES, "white noise", "walk", "peak", "packed", "bytes", "tiles"])
def test_what_is_told_of_an_error_bounds_it(name: str, codec: str) -> None:
    original = generated(name)
    container = _core.refactor(original, codec=codec, threads=2)
    header = _core.Refactored(container)
    assert header.table[-1][3] and header.table[-1][0] == len(container)
    base = header.chunks[0][0] + header.chunks[0][1]
    random = np.random.default_rng(1)
    cuts = [int(cut) for cut in np.exp(random.uniform(np.log(base), np.log(len(container)), 20))]
    for size in [bytes_ for bytes_, *_ in header.table] + cuts:
        restored = restore(container[:size])
        error = np.abs(restored.data.astype(np.float64) - original.astype(np.float64))
        rmse = np.sqrt(np.mean(error**2))
        assert rmse <= restored.rmse * (1 + 1e-9)
        assert error.max() <= restored.max_error * (1 + 1e-9)
        # The last bits of decimation, and those below the rounding of the samples, are told by more.
        if codec == "planes" and name in NAMES:
            assert restored.rmse <= (1.75 if size in cuts else 1.5) * rmse


def parabolas(shape: tuple[int, ...]) -> Any:
    """Samples without rounding, so that every machine makes the same."""
    axes = np.meshgrid(*[np.arange(length) for length in shape], indexing="ij", sparse=True)
    return sum(((axis + 3 * number) % 16 - 8.0) ** 2 for number, axis in enumerate(axes))


OF_EARLIER = {
    "floats": parabolas((5, 24, 40)).astype(np.float32) / 3,
    "doubles": parabolas((9, 31)) / 7,
    "quantised": (np.add.outer(np.arange(30) % 16, np.arange(40) % 16) * 0.25).astype(np.float32),
    "integers": parabolas((33, 50)).astype(np.int16),
    "extreme": parabolas((20, 30)) * 2.0**-1000,
    "decimated": parabolas((41, 37)).astype(np.float32) / 3,
    "tiles": parabolas((110, 100, 100)).astype(np.float32) / 3,
}


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("name", OF_EARLIER)
def test_containers_of_earlier_versions_are_read(name: str, version: int) -> None:
    original = OF_EARLIER[name]
    container = (DATA / "containers" / f"{name}.v{version}").read_bytes()
    header = _core.Refactored(container)
    assert header.version == version
    base = header.chunks[0][0] + header.chunks[0][1]
    for size in np.linspace(base, len(container), 9).astype(int):
        restored = restore(container[:size])
        error = np.abs(restored.data.astype(np.float64) - original)
        assert error.max() <= restored.max_error
        assert np.sqrt(np.mean((error / np.ptp(original)) ** 2)) * np.ptp(original) <= restored.rmse * (1 + 1e-9)
    if name in ("doubles", "quantised", "integers"):
        assert np.array_equal(restored.data, original)
        assert restored.max_error == 0
    assert restored.max_error <= (8 if name == "tiles" else np.ptp(original) / 1000)


@pytest.mark.parametrize(
    ("name", "least"),
    [("photograph", (24.5, 32.3, 43.0)), ("elevations", (33.6, 43.9, 61.8)), ("scan", (28.5, 41.1, 78.5))],
)
def test_few_bytes_of_integers_are_much(monkeypatch: pytest.MonkeyPatch, name: str, least: tuple[float, ...]) -> None:
    """PSNR at 1, 5 and 25 % of the bytes, half a decibel below what was measured."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    original = importlib.import_module("io_variation.fields").integer_fields()[name]
    container = _core.refactor(original)
    for part, decibels in zip((0.01, 0.05, 0.25), least, strict=True):
        restored = restore(container[: int(part * original.nbytes)])
        error = np.abs(restored.data.astype(np.float64) - original)
        assert psnr(original.astype(np.float64), restored.data) > decibels
        assert error.max() <= restored.max_error
        assert np.sqrt(np.mean(error**2)) <= restored.rmse
    whole = restore(container)
    assert np.array_equal(whole.data, original)
    assert whole.max_error == 0


def test_integers_that_suit_no_smooth_filter_stay_reversible() -> None:
    """A mask of land: its edges ring in smooth filters, which would make it twice as large."""
    rows, columns = np.ogrid[:300, :400]
    mask = ((rows - 150) ** 2 + (columns - 200) ** 2 < 9000).astype(np.uint8)
    assert len(_core.refactor(mask)) < mask.nbytes / 60


@pytest.mark.parametrize("codec", ["planes", "decimate"])
def test_exact_means_every_bit(codec: str) -> None:
    original = field("echam_t_17x96x192")[:, ::2]
    original = original.copy()
    original[3, 4, 5:9] = [np.nan, np.inf, -np.inf, 1e-42]
    restored = restore(_core.refactor(original, codec=codec, exact=True))
    assert np.array_equal(restored.data.view(np.uint32), original.view(np.uint32))
    assert restored.max_error == 0


def test_bytes_for_an_accuracy_reach_it() -> None:
    original = field("vort2d_512")
    container = _core.refactor(original)
    header = _core.Refactored(container)
    span = float(np.ptp(original))
    for wanted in [{"psnr": 50.0}, {"relative": 1e-3}, {"max_error": span / 300}, {"rmse": span / 3000}]:
        needed = header.bytes_for(**wanted)
        assert needed < len(container) / 2
        restored = restore(container[:needed])
        assert psnr(original, restored.data) >= wanted.get("psnr", 0)
        assert restored.max_error <= wanted.get("relative", np.inf) * span
        assert restored.max_error <= wanted.get("max_error", np.inf)
        assert restored.rmse <= wanted.get("rmse", np.inf)
    with pytest.raises(ValueError, match="lower tolerance"):
        header.bytes_for(max_error=0)


def test_damage_lowers_accuracy_and_is_told() -> None:
    original = field("wmag_91")
    container = bytearray(_core.refactor(original))
    header = _core.Refactored(bytes(container))
    offset, length, _, _ = header.chunks[3]
    container[offset + length // 2] ^= 4
    restored = restore(bytes(container))
    assert len(restored.damaged) == 1
    error = np.abs(restored.data.astype(np.float64) - original).max()
    assert header.chunks[-1][3] < error <= restored.max_error < header.chunks[0][3] * 2
    container[20] ^= 1
    with pytest.raises(ValueError, match="header is damaged"):
        _core.Refactored(bytes(container))


def test_parts_are_views_of_bytes_of_any_object() -> None:
    container = _core.refactor(field("wmag_91"), codec="decimate")
    header = _core.Refactored(container)
    whole = header.restore([(0, container)])
    framed = b"before" + container + b"behind"
    middle = len(container) // 3
    for view in (memoryview(framed), memoryview(bytearray(framed)), np.frombuffer(framed, np.uint8).data):
        own = view[6:-6]
        found = header.restore([(0, own[:middle]), (middle, own[middle:])])
        assert found.data == whole.data
        assert (found.rmse, found.max_error, found.damaged) == (whole.rmse, whole.max_error, whole.damaged)
    # Bytes that do not lie in a row are copied together.
    found = header.restore([(0, np.repeat(np.frombuffer(container, np.uint8), 2).data[::2])])
    assert found.data == whole.data
    assert header.restore([(0, memoryview(container)[:0])]).rmse == header.restore([]).rmse


def test_a_header_says_how_much_of_it_is_missing() -> None:
    container = _core.refactor(np.arange(1000, dtype=np.int16))
    needed = _core.refactored_header_bytes(container[:14])
    with pytest.raises(ValueError, match=f"needs {needed} bytes"):
        _core.Refactored(container[: needed - 1])
    assert _core.Refactored(container[:needed]).total_bytes == len(container)
    with pytest.raises(ValueError, match="not the bytes of a refactored array"):
        _core.Refactored(b"PK\x03\x04 something else")


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"])
def test_kinds_and_views(dtype: str) -> None:
    values = (np.add.outer(np.arange(50) ** 2 % 37, np.arange(40)) % 100).astype(dtype)
    view = values[::2, ::-1]
    assert np.array_equal(restore(_core.refactor(view, exact=True)).data, view)
    assert restore(_core.refactor(view, exact=True)).data.dtype == view.dtype


def test_what_cannot_be_refactored_is_said() -> None:
    with pytest.raises(TypeError, match="astype"):
        _core.refactor(np.zeros(4, dtype=">f4"))
    with pytest.raises(TypeError, match="astype"):
        _core.refactor(np.zeros(4, dtype=np.complex64))
    with pytest.raises(ValueError, match="1 to 4"):
        _core.refactor(np.zeros((1, 1, 1, 1, 1), dtype=np.float32))
    with pytest.raises(ValueError, match="unknown codec"):
        _core.refactor(np.zeros(4), codec="zip")
    with pytest.raises(ValueError, match="tolerance"):
        _core.refactor(np.zeros(4), tolerance=-1.0)
    with pytest.raises(ValueError, match="ratios"):
        _core.refactor(np.zeros(4), codec="decimate", ratios=[4, 6])


def test_a_region_needs_its_own_bytes() -> None:
    values = np.tile(field("vort2d_512"), (3, 3))
    container = _core.refactor(values, tolerance=float(np.ptp(values)) / 1000, threads=2)
    header = _core.Refactored(container)
    region = [(10, 200), (1300, 1400)]
    ranges = header.ranges(region)
    assert sum(length for _, length in ranges) < len(container) / 2
    parts = [(0, container[: header.header_bytes])]
    parts += [(offset, container[offset : offset + length]) for offset, length in ranges]
    restored = restore(parts, region=region, threads=2)
    assert np.array_equal(restored.data, restore(container).data[10:200, 1300:1400])
    with pytest.raises(ValueError, match="region"):
        restore(container, region=[(0, 10), (0, 99999)])


def test_values_on_a_mesh() -> None:
    generator = np.random.default_rng(7)
    nodes = generator.uniform(-1, 1, (9000, 2))
    values = (np.sin(3 * nodes[:, 0]) * np.cos(4 * nodes[:, 1])).astype(np.float32)
    order = NodeOrder.from_bytes(NodeOrder.from_coordinates(nodes).to_bytes())
    assert np.array_equal(order.values(order.arrange(values)), values)
    budget = values.nbytes // 20

    def error(arranged: Any) -> float:
        restored = restore(_core.refactor(arranged)[:budget])
        return float(np.sqrt(np.mean((restored.data - arranged) ** 2)))

    assert error(order.arrange(values)) < error(values) / 5
    cells = np.stack([np.arange(99), np.arange(1, 100)], axis=1)[generator.permutation(99)]
    chain = NodeOrder.from_connectivity(cells, nodes=100)
    assert np.abs(np.diff(chain.places.astype(np.int64))).max() == 1


def test_containers_in_hdf5(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    original = field("vort2d_512")
    container = _core.refactor(original)
    with h5py.File(tmp_path / "steps.h5", "w") as file:
        hdf5.save(file, "vorticity", container)
        file.create_group("other")
    with h5py.File(tmp_path / "steps.h5") as file:
        found = file["vorticity"]
        assert list(found.attrs["shape"]) == [512, 512]
        assert b"".join(found[name][()].tobytes() for name in ["header", *sorted(set(found) - {"header"})]) == container
        assert np.array_equal(hdf5.load(file, "vorticity").data, restore(container).data)
        base = hdf5.load(file, "vorticity", chunks=1)
        assert base.max_error == _core.Refactored(container).chunks[0][3]
        with pytest.raises(ValueError, match="no refactored array"):
            hdf5.load(file, "other")


def test_containers_in_zarr(tmp_path: Path) -> None:
    library = pytest.importorskip("zarr")
    original = field("vort2d_512")
    container = _core.refactor(original)
    zarr.save(library.open_group(tmp_path / "steps.zarr", mode="w", zarr_format=3), "vorticity", container)
    group = library.open_group(tmp_path / "steps.zarr", mode="r")
    assert group["vorticity"].attrs["dtype"] == "float32"
    assert np.array_equal(zarr.load(group, "vorticity").data, restore(container).data)
    base = zarr.load(group, "vorticity", chunks=1, region=[(0, 10), (5, 9)])
    assert base.data.shape == (10, 4)
