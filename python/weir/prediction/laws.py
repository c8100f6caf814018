"""Laws of counts and sizes: their dependence on the ranks and the arguments of a run.

A law is a sum of at most two monomials in the numbers of a run, such as `4096 ranks + 38 ranks particles`. Of the laws
that fit the past the simplest counts. A law with as many factors as the past has different circumstances fits any
past; it counts where no simpler law explains the past, and where its factors are whole numbers, as bytes and counts
are. A law that was never tested against a coming change is marked as untested.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations, product

from weir.prediction.context import RANKS, Context

EXACT = 1e-9
"""Relative error up to which a law counts as exact."""
CLOSE = 5e-3
"""Relative error up to which a law explains its data: half of the tolerance of a right prediction."""

_FEATURES_MAX = 6
"""Most numbers of a run in a fit; the numbers that vary least are left out first."""
_EXPONENTS = (1, -1, 2, 3)
_PAIR_EXPONENTS = ((1, 1), (1, -1), (-1, 1), (2, 1), (3, 1), (1, 2), (1, 3), (2, -1), (3, -1), (-1, 2), (-1, 3))
_PAIRED_MONOMIALS_MAX = 40


@dataclass(frozen=True, slots=True)
class Observation:
    """A quantity in one past run."""

    context: Context
    value: float


@dataclass(frozen=True, slots=True)
class Monomial:
    """A product of powers of numbers of a run; without powers it is 1."""

    powers: tuple[tuple[str, int], ...]

    def of(self, context: Context) -> float:
        """Evaluate the monomial.

        Args:
            context: Circumstances of a run.

        Returns:
            The value; NaN where the run lacks one of its numbers.
        """
        value = 1.0
        for key, exponent in self.powers:
            base = context.numbers.get(key)
            if base is None or (base == 0 and exponent < 0):
                return math.nan
            value *= base**exponent
        return value

    @property
    def weight(self) -> int:
        """The complexity of the monomial."""
        return sum(1 + 2 * (abs(exponent) - 1) + (exponent < 0) for _, exponent in self.powers)


ONE = Monomial(())


@dataclass(frozen=True, slots=True)
class Law:
    """A sum of monomials, each times its factor."""

    terms: tuple[tuple[float, Monomial], ...]
    untested: frozenset[str] = frozenset()
    """Numbers that change in the coming run and never changed in the past."""

    def of(self, context: Context) -> float:
        """Evaluate the law.

        Args:
            context: Circumstances of a run.

        Returns:
            The value.
        """
        return sum(factor * monomial.of(context) for factor, monomial in self.terms)


def law_of(
    observations: Sequence[Observation],
    coming: Context,
    *,
    grows_with_ranks: bool = False,
    is_count: bool = False,
    is_tested: bool = False,
) -> Law | None:
    """Find the simplest law that explains observations, exactly or else closely.

    A number that changes only between the past and the coming run is followed where a product of the run's numbers
    equals the observations, and nothing simpler is known. The law then names the number as untested.

    Args:
        observations: A quantity in past runs, of one run at least.
        coming: The coming run.
        grows_with_ranks: Whether the quantity belongs to all ranks together. A quantity of one rank or one pattern
            more probably grows with an argument, where ranks and an argument changed together.
        is_count: Whether the quantity is a number of steps or pieces, which may have one more than an argument says.
        is_tested: Whether the law must have fewer factors than the past has different circumstances.

    Returns:
        The law; None where no law explains the observations.
    """
    varying = _varying([observation.context for observation in observations])
    changing = [
        key for key in _common(observations, coming) if key not in varying and _changes(key, observations, coming)
    ]
    untested = frozenset(changing)
    constant = _fit(observations, (ONE,))
    if changing:
        named = _named_product(observations, coming, changing, is_count=is_count)
        if named is not None:
            return named
    if constant is not None and _error(constant, observations) <= EXACT:
        return Law(constant.terms, untested)
    laws = _by_simplicity(_laws(observations, varying), grows_with_ranks)
    for tolerance in (EXACT, CLOSE):
        if constant is not None and _error(constant, observations) <= tolerance:
            return Law(constant.terms, untested)
        for law in laws:
            if _error(law, observations) <= tolerance and _is_sane(law, coming):
                return Law(law.terms, untested)
    if not is_tested:
        for law in _by_simplicity(_whole_laws(observations, varying), grows_with_ranks):
            if _is_sane(law, coming):
                return Law(law.terms, untested)
    return None


def _by_simplicity(laws: Iterable[Law], grows_with_ranks: bool) -> list[Law]:
    """Laws in their order: the simplest first, and of equally simple ones those that need no growth with the ranks."""

    def rank_of(law: Law) -> tuple[bool, int, bool]:
        is_negative = any(factor < 0 for factor, _ in law.terms)
        grows = any(key == RANKS and exponent > 0 for _, monomial in law.terms for key, exponent in monomial.powers)
        return (is_negative, sum(1 + monomial.weight for _, monomial in law.terms), grows and not grows_with_ranks)

    return sorted(laws, key=rank_of)


def _common(observations: Sequence[Observation], coming: Context) -> list[str]:
    """Numbers that every run has, the ranks first."""
    keys = set(coming.numbers)
    for observation in observations:
        keys &= observation.context.numbers.keys()
    return sorted(keys, key=lambda key: (key != RANKS, key))


def _varying(contexts: Sequence[Context]) -> list[str]:
    """Positive numbers that differ among the runs, the numbers with most values first."""
    keys = set(contexts[0].numbers)
    for context in contexts:
        keys &= context.numbers.keys()
    values = {key: {context.numbers[key] for context in contexts} for key in keys}
    varying = [key for key in keys if len(values[key]) > 1 and min(values[key]) > 0]
    return sorted(varying, key=lambda key: (-len(values[key]), key != RANKS, key))[:_FEATURES_MAX]


def _changes(key: str, observations: Sequence[Observation], coming: Context) -> bool:
    return any(observation.context.numbers[key] != coming.numbers[key] for observation in observations)


def _monomials(keys: Sequence[str], powers: Sequence[int] = _EXPONENTS) -> Iterator[Monomial]:
    for key in keys:
        for exponent in powers:
            yield Monomial(((key, exponent),))
    for first, second in combinations(keys, 2):
        for one, other in _PAIR_EXPONENTS:
            yield Monomial(((first, one), (second, other)))
    for three in combinations(keys, 3):
        for signs in product((1, -1), repeat=3):
            if sum(signs) >= 1:
                yield Monomial(tuple(zip(three, signs, strict=True)))


def _laws(observations: Sequence[Observation], varying: Sequence[str]) -> Iterator[Law]:
    """Laws of one and of two terms that have fewer factors than the past has different circumstances."""
    monomials = list(_monomials(varying))
    for monomial in monomials:
        law = _fit(observations, (monomial,))
        if law is not None:
            yield law
    simple = sorted([ONE, *monomials], key=lambda monomial: monomial.weight)[:_PAIRED_MONOMIALS_MAX]
    for pair in combinations(simple, 2):
        law = _fit(observations, pair)
        if law is not None:
            yield law


def _whole_laws(observations: Sequence[Observation], varying: Sequence[str]) -> Iterator[Law]:
    """Laws of a constant and a monomial with whole factors through the two different circumstances of the past.

    Such a law may have a negative constant, as where all ranks but one make a file.
    """
    for monomial in _monomials(varying):
        points = {(monomial.of(one.context), one.value) for one in observations}
        if len(points) != 2 or not all(math.isfinite(at) for at, _ in points):
            continue
        (low, first), (high, last) = sorted(points)
        if low == high:
            continue
        factor = _rounded((last - first) / (high - low))
        constant = _rounded(first - factor * low)
        if factor > 0 and constant != 0 and factor.is_integer() and constant.is_integer():
            yield Law(((constant, ONE), (factor, monomial)))


def _fit(observations: Sequence[Observation], monomials: tuple[Monomial, ...]) -> Law | None:
    """Least squares of the relative error; None where the past does not determine the factors, or one is negative."""
    rows = [tuple(monomial.of(observation.context) for monomial in monomials) for observation in observations]
    if any(not math.isfinite(number) for row in rows for number in row):
        return None
    if len(monomials) > 1 and len(set(rows)) <= len(monomials):
        return None
    if len(monomials) == 1 and monomials[0] != ONE and len(set(rows)) <= 1:
        return None
    scaled = [
        tuple(number / max(abs(observation.value), 1.0) for number in row)
        for row, observation in zip(rows, observations, strict=True)
    ]
    goals = [observation.value / max(abs(observation.value), 1.0) for observation in observations]
    if len(monomials) == 1:
        squares = sum(row[0] * row[0] for row in scaled)
        if squares == 0:
            return None
        factor = sum(row[0] * goal for row, goal in zip(scaled, goals, strict=True)) / squares
        return Law(((_rounded(factor), monomials[0]),))
    return _fit_two(scaled, goals, monomials)


def _fit_two(rows: Sequence[tuple[float, ...]], goals: Sequence[float], monomials: tuple[Monomial, ...]) -> Law | None:
    # Columns of very different magnitude: scaled to one, the normal equations stay well conditioned.
    one, two = (max(abs(row[column]) for row in rows) for column in (0, 1))
    if one == 0 or two == 0:
        return None
    a = sum((row[0] / one) ** 2 for row in rows)
    b = sum(row[0] / one * row[1] / two for row in rows)
    c = sum((row[1] / two) ** 2 for row in rows)
    u = sum(row[0] / one * goal for row, goal in zip(rows, goals, strict=True))
    v = sum(row[1] / two * goal for row, goal in zip(rows, goals, strict=True))
    determinant = a * c - b * b
    if determinant <= 1e-12 * a * c:
        return None
    first, second = (c * u - b * v) / determinant / one, (a * v - b * u) / determinant / two
    if first <= 0 or second <= 0:
        return None
    return Law(((_rounded(first), monomials[0]), (_rounded(second), monomials[1])))


def _rounded(factor: float) -> float:
    """The factor, rounded where it is a whole number up to arithmetic: the bytes of a particle or of a header."""
    whole = round(factor)
    return float(whole) if whole != 0 and abs(factor - whole) <= 1e-6 * abs(whole) else factor


def _error(law: Law, observations: Sequence[Observation]) -> float:
    """The largest relative error."""
    return max(
        abs(law.of(observation.context) - observation.value) / max(abs(observation.value), 1.0)
        for observation in observations
    )


def _is_sane(law: Law, coming: Context) -> bool:
    value = law.of(coming)
    return math.isfinite(value) and value >= 0


def _named_product(
    observations: Sequence[Observation], coming: Context, changing: Sequence[str], *, is_count: bool
) -> Law | None:
    """A product or quotient of the run's own numbers that equals what was observed in every run, with no factor.

    A count may be one more: a program that writes at the begin and after every step makes `1 + steps / every` files.
    """
    if any(observation.value <= 1 for observation in observations):
        return None
    keys = [
        key
        for key in _common(observations, coming)
        if coming.numbers[key] > 0 and all(observation.context.numbers[key] > 1 for observation in observations)
    ][: 2 * _FEATURES_MAX]
    for more in (0, 1) if is_count else (0,):
        for monomials in _candidates(keys, is_alone=more > 0):
            found = [one for one in monomials if _equals(one, observations, more)]
            if not found:
                continue
            follows = [monomial for monomial in found if any(key in changing for key, _ in monomial.powers)]
            # If a product of constant numbers explains as much, the changing number may stand there by chance.
            if len(follows) < len(found):
                return None
            terms = ((1.0, follows[0]), (1.0, ONE))
            return Law(terms if more else terms[:1])
    return None


def _candidates(keys: Sequence[str], *, is_alone: bool) -> Iterator[list[Monomial]]:
    """Products of up to three numbers, or one number alone, and quotients of two: the simplest first."""
    for count in (1,) if is_alone else (1, 2, 3):
        yield [Monomial(tuple((key, 1) for key in chosen)) for chosen in combinations(keys, count)]
    yield [Monomial(((one, 1), (other, -1))) for one, other in permutations(keys, 2)]


def _equals(monomial: Monomial, observations: Sequence[Observation], more: int) -> bool:
    """Whether a monomial and `more` are above 1 and equal what was observed."""
    return all(
        seen.value - more > 1 and math.isclose(monomial.of(seen.context), seen.value - more, rel_tol=EXACT)
        for seen in observations
    )
