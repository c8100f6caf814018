"""How much of a stream does blob detection need? Steps are written in two tiers, and read at several accuracies.

.venv/bin/python examples/enough.py [FAST SHARED]      two empty folders, or URLs of fsspec; by default temporary ones

The base of each step lies on the fast tier, its augmentations on the shared one. A reader that asks for an accuracy
fetches no more than that takes.
"""

import sys
from tempfile import TemporaryDirectory

import numpy as np
from adaptive import blobs, generated, meshes, quality
from weir import adaptive

NODES, STEPS, PIXELS = 40_000, 3, 300
ASKED_DB = (20, 30, 40, 60, 80)


def main(fast: str, shared: str) -> None:
    plane = generated.potential_plane(seed=7, nodes=NODES)
    raster = meshes.Raster(plane.mesh, PIXELS)

    def detect(values: quality.Array) -> blobs.Blobs:
        return blobs.detect(raster.sample(values), threshold=plane.threshold, pixel_length=raster.pixel_length)

    steps = [plane.values(step).astype(np.float32) for step in range(STEPS)]
    adaptive.write([fast, shared], steps)
    print("asked    got      of the bytes   blobs' F1   overlap")
    for asked in ASKED_DB:
        policy = adaptive.Accuracy(psnr=asked)
        found = list(adaptive.open([fast, shared], accuracy=policy))
        compared = [blobs.compare(detect(truth), detect(step.data)) for truth, step in zip(steps, found, strict=True)]
        part = sum(step.bytes_read for step in found) / sum(truth.nbytes for truth in steps)
        got = min(quality.psnr(truth, step.data) for truth, step in zip(steps, found, strict=True))
        f1, overlap = (np.mean([getattr(each, name) for each in compared]) for name in ("f1", "overlap"))
        print(f"{asked:3} dB   {got:4.0f} dB   {part:12.1%}   {f1:9.2f}   {overlap:7.2f}")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        main(sys.argv[1], sys.argv[2])
    else:
        with TemporaryDirectory() as folder:
            main(f"{folder}/fast", f"{folder}/shared")
