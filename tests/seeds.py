"""Seeds of random tests, printed so that a failure can be repeated, as `weir_testing::seed` does for Rust."""

import os
import random


def seed(usual: int = 0) -> int:
    """The number that WEIR_SEED gives, else the usual one, or a fresh one below 2**32 where that is 0; printed."""
    number = int(os.environ.get("WEIR_SEED", "0")) or usual or random.SystemRandom().randrange(1, 1 << 32)
    print(f"WEIR_SEED={number}")
    return number


def seeded(usual: int = 0) -> random.Random:
    """A generator of the choices that `seed` repeats."""
    return random.Random(seed(usual))
