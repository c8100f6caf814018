"""Reads every sample of a data set in a new random order in each epoch, as a training does without a cache."""

import os
import random
import sys
from pathlib import Path

SAMPLE_BYTES = 4096
EPOCHS = 8

order = random.Random(7)
samples = os.open(Path(sys.argv[1]) / "samples.bin", os.O_RDONLY)
places = list(range(0, os.fstat(samples).st_size, SAMPLE_BYTES))
for _ in range(EPOCHS):
    order.shuffle(places)
    for place in places:
        assert len(os.pread(samples, SAMPLE_BYTES, place)) == SAMPLE_BYTES
os.close(samples)
