"""The inverse of a covariance matrix, by halves."""

import numpy

from weir.prediction.bandwidth.history import Array

_ROWS_MAX = 50
"""Most rows that are inverted at once: OpenBLAS starts threads for more than about 100 rows, which wait for each other
on busy cores (200 ms instead of 0.5)."""
_PRODUCT_ROWS = 24
"""Most rows of a product: products start threads earlier than inverses."""


def inverse_of(matrix: Array) -> Array:
    """Invert a matrix by its halves and their Schur complement.

    Args:
        matrix: A symmetric positive definite matrix, of shape (rows, rows).

    Returns:
        Its inverse, of the same shape.
    """
    rows = len(matrix)
    if rows <= _ROWS_MAX:
        return numpy.asarray(numpy.linalg.inv(matrix))
    half = rows // 2
    first = inverse_of(matrix[:half, :half])
    across = _product(first, matrix[:half, half:])
    second = inverse_of(matrix[half:, half:] - _product(matrix[half:, :half], across))
    crossed = _product(across, second)
    answer = numpy.empty_like(matrix)
    answer[:half, :half] = first + _product(crossed, across.T)
    answer[:half, half:] = -crossed
    answer[half:, :half] = -crossed.T
    answer[half:, half:] = second
    return answer


def _product(left: Array, right: Array) -> Array:
    rows = range(0, len(left), _PRODUCT_ROWS)
    return numpy.concatenate([left[row : row + _PRODUCT_ROWS] @ right for row in rows])
