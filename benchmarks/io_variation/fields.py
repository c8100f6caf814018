"""The fields that codecs are measured on."""

import gzip
from pathlib import Path

import numpy as np
from matplotlib import cbook
from matplotlib import pyplot as plt
from numpy.typing import NDArray

Field = NDArray[np.float32]
Array = NDArray[np.generic]
_REAL = Path(__file__).resolve().parents[2] / "tests/data/fields"


def real_fields() -> dict[str, Field]:
    """The fields of real simulations, by name."""
    return {path.stem: np.load(path) for path in sorted(_REAL.glob("*.npy"))}


def integer_fields() -> dict[str, Array]:
    """A photograph of 8 bits, elevations and a medical scan of 16 bits: samples that matplotlib has, by name."""
    photograph = plt.imread(_sample("grace_hopper.jpg"))[:, :, 1]
    elevations = np.load(_sample("jacksboro_fault_dem.npz"))["elevation"]
    scan = np.frombuffer(gzip.decompress(_sample("s1045.ima.gz").read_bytes()), np.uint16)
    return {
        "photograph": np.ascontiguousarray(photograph),
        "elevations": elevations.astype(np.int16),
        "scan": scan.reshape(256, 256),
    }


def small_fields() -> dict[str, Array]:
    """Parts of the fields above, of 4 to 74 kB, by name, the largest first."""
    real, integers = real_fields(), integer_fields()
    echam, vorticity, vortex = (real[name] for name in ("echam_t_17x96x192", "vort2d_512", "vort_41x128x128"))
    parts = {
        "echam level 5": echam[5],
        "echam level 8": echam[8],
        "vorticity 96 x 128": vorticity[:96, :128],
        "vorticity 110": vorticity[:110, :110],
        "elevations 150": integers["elevations"][:150, :150],
        "scan 128": integers["scan"][64:192, 64:192],
        "wmag 20": real["wmag_91"][40:60, 40:60, 40:60],
        "vorticity 64": vorticity[200:264, 200:264],
        "photograph 128": integers["photograph"][200:328, 200:328],
        "vorticity cube 16": vortex[10:26, 40:56, 40:56],
        "vorticity 32": vorticity[200:232, 200:232],
    }
    return {name: np.ascontiguousarray(part) for name, part in parts.items()}


def _sample(name: str) -> Path:
    return Path(cbook.get_sample_data(name, asfileobj=False))
