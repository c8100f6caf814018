"""Quality at equal bytes and speed of the codecs, beside decimation and the published figures of other programs.

Bytes are all that is read: header, base and augmentation. PSNR has the range of the field as its peak.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial

import _examples  # noqa: F401 - makes the package `adaptive` known
import numpy as np
from adaptive import blobs, generated, meshes, rendering
from adaptive.quality import psnr
from weir import _core

from io_variation import baseline
from io_variation.fields import Array, Field, integer_fields, real_fields, small_fields

PARTS = (0.01, 0.05, 0.25)
"""Parts of the raw bytes that are read."""
ASKED_DB = {0.01: (8.0, 15.0), 0.05: (14.0, 21.0), 0.25: (40.0, 50.0)}
"""Required gain over decimation: on every field, and on average."""
OTHERS: Mapping[str, Mapping[str, tuple[float, float, float]]] = {
    "wmag_91": {"SPERR": (38.6, 49.9, 88.5), "MGARD-MDR": (32.0, 38.1, 72.7)},
    "vort_41x128x128": {"SPERR": (42.8, 54.1, 92.4), "MGARD-MDR": (36.2, 41.1, 77.6)},
    "echam_t_17x96x192": {"SPERR": (49.4, 63.3, 107.1), "MGARD-MDR": (37.0, 46.2, 84.9)},
    "vort2d_512": {"SPERR": (44.2, 56.9, 95.5)},
}
"""PSNR in dB at `PARTS`, measured once with SPERR's embedded stream and MGARD's MDR on these fields."""
SPERR_OF_INTEGERS = {
    "photograph": (25.45, 32.74, 43.09),
    "elevations": (35.30, 44.67, 63.18),
    "scan": (30.77, 42.07, 78.80),
}
"""The same of integers that were coded as floats, with SPERR of hdf5plugin 7.1: files of one chunk, of at most so many
bytes, by its setting `rate`."""
SPERR_OF_SMALL = {
    "echam level 5": (38.43, 52.55, 96.49),
    "echam level 8": (38.44, 51.79, 95.34),
    "vorticity 96 x 128": (34.46, 44.91, 81.95),
    "vorticity 110": (35.21, 45.13, 82.11),
    "elevations 150": (31.18, 41.03, 59.43),
    "scan 128": (24.35, 33.89, 55.25),
    "wmag 20": (30.04, 41.94, 80.23),
    "vorticity 64": (29.95, 38.26, 75.38),
    "photograph 128": (22.15, 28.45, 38.94),
    "vorticity cube 16": (23.32, 38.76, 75.35),
    "vorticity 32": (21.56, 34.01, 71.60),
}
"""The same of small arrays."""
_RIVALS = {"by axis": "", "decimate": "_over_codec"}
"""Rivals in PSNR, with the suffix of their keys. Keys without a suffix are of the published baseline: decimation along
each axis, by the best ratio for the field and the bytes. The codec `decimate` knows one axis alone."""
_ON_MESH = "generated blobs"
_SPEED_FIELD = "wmag_91"
_SPEED_EDGE = 192
"""Edge of the array whose coding is timed: eight tiles, so that there is work for two cores."""
_ASKED_MB_PER_SECOND = {
    "planes": {"encode": 75, "decode_1": 300, "decode_5": 200, "decode_25": 140},
    "decimate": {"encode": 1000, "decode_1": 1000, "decode_5": 1000, "decode_25": 1000, "decode_100": 1000},
}
_ASKED_TWO_CORES = 1.8
_REPEATS = 5


def restored(container: bytes, part_bytes: int, *, threads: int = 1) -> Field:
    """Restore an array from the first bytes of a container."""
    what = _core.Refactored(container)
    found = what.restore([(0, memoryview(container)[:part_bytes])], threads=threads)
    return np.frombuffer(found.data, what.dtype).reshape(what.shape)


def quality() -> dict[str, float]:
    """PSNR of every field at every budget, the figures of real fields, and the scores of the analyses."""
    gains: dict[tuple[float, str], list[float]] = {(part, rival): [] for part in PARTS for rival in _RIVALS}
    behind: list[float] = []
    seen: dict[str, list[float]] = {}
    print(f"{'field':20} {'bytes':>5} {'planes':>8} {'decimate':>9} {'by axis':>8} {'gain':>6}  {'of others':32} seen")
    for name, field in (real_fields() | _generated()).items():
        containers = {codec: _core.refactor(field, codec=codec) for codec in ("planes", "decimate")}
        for index, part in enumerate(PARTS):
            size = int(part * field.nbytes)
            ours = restored(containers["planes"], size)
            theirs = baseline.best(field, size)
            decibels = {
                "planes": psnr(field, ours),
                "decimate": psnr(field, restored(containers["decimate"], size)),
                "by axis": psnr(field, theirs),
            }
            over = {rival: decibels["planes"] - decibels[rival] for rival in _RIVALS}
            others = {who: figures[index] for who, figures in OTHERS.get(name, {}).items()}
            if name in OTHERS:
                for rival, gain in over.items():
                    gains[part, rival].append(gain)
                behind.append(others["SPERR"] - decibels["planes"])
            figures = _seen(name, field, ours, theirs) if part < max(PARTS) else {}
            for key, value in figures.items() if name in OTHERS else ():
                seen.setdefault(f"{key}_{100 * part:g}", []).append(value)
            print(
                f"{name:20} {part:5.0%} "
                + " ".join(f"{decibels[each]:8.1f}" for each in decibels)
                + f" {over['by axis']:7.1f}  {', '.join(f'{who} {value:.1f}' for who, value in others.items()):32} "
                + ", ".join(f"{key} {value:.2f}" for key, value in figures.items()),
                flush=True,
            )
    result = {
        "psnr_behind_sperr_max_db": max(behind),
        "psnr_behind_sperr_integers_max_db": max(_behind(integer_fields(), SPERR_OF_INTEGERS)),
        "psnr_behind_sperr_small_max_db": max(_behind(small_fields(), SPERR_OF_SMALL)),
    }
    for (part, rival), values in gains.items():
        key = f"psnr_gain_{100 * part:g}{_RIVALS[rival]}"
        result[f"{key}_db"] = min(values)
        result[f"{key}_mean_db"] = statistics.fmean(values)
        least, average = ASKED_DB[part]
        print(
            f"gain over {rival} at {part:.0%}: least {min(values):.1f} dB ({least:g} asked), "
            f"mean {statistics.fmean(values):.1f} ({average:g} asked)"
        )
    return result | {key: statistics.fmean(values) for key, values in seen.items()}


def _behind(fields: Mapping[str, Array], others: Mapping[str, tuple[float, float, float]]) -> Iterator[float]:
    """Decibels that SPERR is ahead by on each field at each budget that restores something."""
    for name, field in fields.items():
        container = _core.refactor(field)
        for part, theirs in zip(PARTS, others[name], strict=True):
            size = int(part * field.nbytes)
            if size < _core.Refactored(container).header_bytes:
                continue
            # The peak is a float: that of integers of one sign would overflow.
            ours = psnr(field.astype(np.float64), restored(container, size))
            print(f"{name:20} {part:5.0%} {ours:8.1f} {'of others':>25} SPERR {theirs:.1f}, {theirs - ours:+.1f}")
            yield theirs - ours


def _generated() -> dict[str, Field]:
    """Fields in the manner of the paper's simulations: a steep front, and values on the nodes of a mesh."""
    return {
        "generated collapse": generated.collapse_velocity(seed=1, shape=(72, 72, 72)).astype(np.float32),
        _ON_MESH: _plane().values(0).astype(np.float32),
    }


@cache
def _plane() -> generated.PotentialPlane:
    return generated.potential_plane(seed=1, nodes=200_000)


@cache
def _raster() -> meshes.Raster:
    return meshes.Raster(_plane().mesh, 512)


def _seen(name: str, field: Field, ours: Field, theirs: Field) -> dict[str, float]:
    """F1 of the blobs and SSIM of the picture, of `planes` and of decimation."""
    images = [_raster().sample(values) if name == _ON_MESH else values for values in (field, ours, theirs)]
    threshold = blobs.usual_threshold(images[0])
    truth = blobs.detect(images[0], threshold=threshold)
    found = {}
    for codec, image in zip(("planes", "decimation"), images[1:], strict=True):
        found[f"blob_f1_{codec}"] = blobs.compare(truth, blobs.detect(image, threshold=threshold)).f1
        found[f"ssim_{codec}"] = rendering.compare(rendering.plane(images[0]), rendering.plane(image)).ssim
    return found


def speed() -> dict[str, float]:
    """Megabytes of raw data a second on one core beside a plain copy, the gain on two cores, and the required
    values.
    """
    field = large_field()
    megabytes = field.nbytes / 1e6
    target = np.empty_like(field)
    copied = megabytes / seconds_of(partial(np.copyto, target, field))
    figures: dict[str, float] = {"copy_mb_per_second": copied}
    print(
        f"an array of {' x '.join(map(str, field.shape))}, {megabytes:.0f} MB; a copy of it runs at {copied:.0f} MB/s"
    )
    for codec, prefix in (("planes", ""), ("decimate", "decimate_")):
        container = _core.refactor(field, codec=codec)
        actions: dict[str, Callable[..., object]] = {"encode": partial(_core.refactor, field, codec=codec)}
        for part in (*PARTS, 1.0):
            size = min(int(part * field.nbytes), len(container))
            actions[f"decode_{100 * part:g}"] = partial(restored, container, size)
        for action, work in actions.items():
            one, two = (seconds_of(partial(work, threads=threads)) for threads in (1, 2))
            figures[f"{prefix}{action}_mb_per_second"] = megabytes / one
            figures[f"{prefix}{action}_two_cores"] = one / two
            asked = _ASKED_MB_PER_SECOND.get(codec, {}).get(action)
            print(
                f"{codec:10} {action:10} {megabytes / one:8.0f} MB/s on one core"
                + (f" ({megabytes / one / asked:.2f} of the {asked} asked)" if asked else " " * 24)
                + f", {one / two:5.2f}x on two ({one / two / _ASKED_TWO_CORES:.2f} of what was asked)",
                flush=True,
            )
    # The slowest of the three budgets stands for all.
    return figures | {"decode_mb_per_second": min(figures[f"decode_{100 * part:g}_mb_per_second"] for part in PARTS)}


def large_field() -> Field:
    """A real field, mirrored along each axis so that no tile has an edge that the field has not, of several tiles."""
    field = real_fields()[_SPEED_FIELD]
    for axis in range(field.ndim):
        count = -(-_SPEED_EDGE // field.shape[axis])
        flipped = np.flip(field, axis)
        field = np.concatenate([flipped if number % 2 else field for number in range(count)], axis)
    return np.ascontiguousarray(field[tuple(slice(_SPEED_EDGE) for _ in field.shape)])


def seconds_of(work: Callable[[], object]) -> float:
    """The shortest time of several runs: other work on the machine only adds."""
    times = []
    for _ in range(_REPEATS):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return min(times)
