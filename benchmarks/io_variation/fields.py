"""The fields that codecs are measured on."""

import gzip
from pathlib import Path

import numpy as np
from matplotlib import cbook
from matplotlib import pyplot as plt
from numpy.typing import NDArray

Field = NDArray[np.float32]
_REAL = Path(__file__).resolve().parents[2] / "tests/data/fields"


def real_fields() -> dict[str, Field]:
    """The fields of real simulations, by name."""
    return {path.stem: np.load(path) for path in sorted(_REAL.glob("*.npy"))}


def integer_fields() -> dict[str, NDArray[np.integer]]:
    """A photograph of 8 bits, elevations and a medical scan of 16 bits: samples that matplotlib has, by name."""
    photograph = plt.imread(_sample("grace_hopper.jpg"))[:, :, 1]
    elevations = np.load(_sample("jacksboro_fault_dem.npz"))["elevation"]
    scan = np.frombuffer(gzip.decompress(_sample("s1045.ima.gz").read_bytes()), np.uint16)
    return {
        "photograph": np.ascontiguousarray(photograph),
        "elevations": elevations.astype(np.int16),
        "scan": scan.reshape(256, 256),
    }


def _sample(name: str) -> Path:
    return Path(cbook.get_sample_data(name, asfileobj=False))
