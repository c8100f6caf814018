"""Seeds of random tests, printed so that a failure can be repeated, as `weir_testing::seed` does for Rust."""

import os
import random


def seed() -> int:
    """The number that WEIR_SEED gives, else a fresh one below 2**32; printed."""
    number = int(os.environ.get("WEIR_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 32)
    print(f"WEIR_SEED={number}")
    return number


def seeded() -> random.Random:
    """A generator of the choices that `seed` repeats."""
    return random.Random(seed())
