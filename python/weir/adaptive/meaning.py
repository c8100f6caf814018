"""Arrays of any type as containers, and back: their form and their encoding together."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy

from weir.adaptive.array import native
from weir.adaptive.attributes import from_json, to_json
from weir.adaptive.encoding import Array, Encoding
from weir.adaptive.fills import parse_fill
from weir.adaptive.forms import Form

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weir import _core
    from weir.adaptive.fills import FillLike


@dataclass(frozen=True, slots=True)
class Coded:
    """An array as a codec takes it.

    Attributes:
        values: The stored numbers.
        fills: Values that are kept exactly, of the same type; None lets the codec guess.
        tolerance: Largest error of a number; None is the codec's smallest.
        exact: Whether every bit is kept.
        whole: Whether a part of the container would be other values, so that it lies whole in the base.
    """

    values: Array
    fills: Array | None
    tolerance: float | None
    exact: bool
    whole: bool = False

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of `_core.refactor`."""
        return {"fill": self.fills, "tolerance": self.tolerance, "exact": self.exact}


@dataclass(frozen=True, slots=True)
class Meaning:
    """Meaning of the arrays of a stream, or of a container.

    Attributes:
        form: Type and shape of the values in the file, and the form in which they are stored.
        encoding: Fill values, packing and valid range of the values in the file.
    """

    form: Form
    encoding: Encoding

    @staticmethod
    def of(
        dtype: numpy.dtype[Any],
        shape: "Sequence[int]",
        attributes: Mapping[str, Any] | None = None,
        *,
        given: "FillLike | None" = None,
    ) -> "Meaning":
        """Find the meaning of arrays.

        Args:
            dtype: Type of the values in the file.
            attributes: Attributes of the variable.
            given: Fill values by the user.

        Raises:
            ValueError: Values of the type cannot be stored, or their attributes make no sense.
        """
        encoding = Encoding(dtype, attributes, given=given)
        return Meaning(Form.of(encoding.counted_dtype, shape), encoding)

    @property
    def is_plain(self) -> bool:
        """Whether a container holds the values as they are."""
        return self.form.is_plain and self.encoding.is_plain

    def coded(self, values: Array, *, tolerance: float | None, exact: bool) -> Coded:
        """Bring values into the form that codecs take.

        Args:
            values: The values in the file.
            tolerance: Largest error of a value, in the variable's units.
            exact: Whether every bit is kept.
        """
        counted = self.encoding.counted(values)
        fills: Array | None
        if self.form.is_exact or self.form.dtype.kind == "c":
            fills, stated = None, True
        else:
            fills, stated = self.encoding.marks(counted)
        largest = 0.0
        if tolerance is not None and self.encoding.is_packed:
            largest = _largest(counted, self.encoding.missing(counted))
            tolerance = self.encoding.counted_error(tolerance, largest)
        if tolerance is not None:
            tolerance = self.form.tolerance(tolerance)
        if fills is not None and self.form.dtype.str[1:] == "f2":
            # The nearest half float of another cell could be a fill value.
            stated = stated and not numpy.isfinite(fills).any()
            fills = fills.astype(self.form.stored_dtype)
        kept = exact or self.form.is_exact or not stated or (tolerance == 0.0)
        whole = self.form.is_exact or not stated
        return Coded(native(self.form.stored(counted)), fills, None if kept else tolerance, kept, whole)

    def counted(self, stored: Array, fills: "Sequence[float]", bounds: list[tuple[int, int]] | None = None) -> Array:
        """Bring restored numbers into the type and shape of the values, as numbers.

        Args:
            stored: The restored array, or the region of it by `form.stored_bounds`.
            fills: The values that were kept exactly.
            bounds: Begin and end along each axis of the values; None is the whole array.
        """
        values = self.form.values(stored) if bounds is None else self.form.values_within(stored, bounds)
        return self.encoding.settled(values, numpy.asarray(fills)) if self.encoding.valid is not None else values

    def errors(self, rmse: float, max_error: float, header: "_core.Refactored") -> tuple[float, float]:
        """Find the bounds of the errors of values, in the variable's units.

        Args:
            rmse: Bound of the root mean square error of the stored numbers.
            max_error: Bound of the largest error of a stored number.
            header: Header of the container.
        """
        if self.form.is_exact:
            return (0.0, 0.0) if max_error == 0.0 else (math.inf, math.inf)
        largest, ratio = self._largest_of(header), self.form.error_ratio
        return self.encoding.unit_error(rmse * ratio, largest), self.encoding.unit_error(max_error * ratio, largest)

    def bytes_for(
        self,
        header: "_core.Refactored",
        *,
        rmse: float | None = None,
        max_error: float | None = None,
        psnr: float | None = None,
        relative: float | None = None,
    ) -> int:
        """Find the bytes of a container that suffice for an accuracy.

        Args:
            rmse: Root mean square error, in the variable's units.
            max_error: Largest error of a value, in the variable's units.
            psnr: Peak signal-to-noise ratio, in dB.
            relative: Largest error, as part of the range of values.

        Raises:
            ValueError: The container is not as accurate.
        """
        largest, ratio = self._largest_of(header), self.form.error_ratio
        rmse, max_error = (
            None if error is None else self.encoding.counted_error(error, largest) / ratio
            for error in (rmse, max_error)
        )
        return header.bytes_for(rmse=rmse, max_error=max_error, psnr=psnr, relative=relative)

    def _largest_of(self, header: "_core.Refactored") -> float:
        """Largest magnitude of the numbers; 0 where it does not matter, and where no cell has a value."""
        largest = max(abs(end) for end in header.range) if self.encoding.is_packed else 0.0
        return largest if math.isfinite(largest) else 0.0

    def to_document(self) -> dict[str, Any]:
        """Describe the meaning as a JSON object."""
        return {
            "dtype": self.encoding.dtype.str if self.encoding.dtype.names is None else self.encoding.dtype.descr,
            "shape": list(self.form.shape),
            "attributes": to_json(self.encoding.attributes),
            "given": [value if math.isfinite(value) else str(value) for value in self.encoding.given],
        }

    @staticmethod
    def from_document(document: Any) -> "Meaning":
        """Read a meaning back.

        Raises:
            ValueError: The object is damaged.
        """
        if not isinstance(document, dict):
            raise ValueError("its meaning is no object")
        described = document.get("dtype")
        try:
            names = [tuple(field) for field in described] if isinstance(described, list) else described
            dtype = numpy.dtype(names)
            shape = tuple(int(length) for length in document["shape"])
            given = [parse_fill(str(value)) for value in document.get("given", ())] or None
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"its meaning is damaged: {json.dumps(described)}: {error}") from error
        return Meaning.of(dtype, shape, from_json(document.get("attributes", {})), given=given)


def _largest(counted: Array, missing: Array) -> float:
    valid = counted[~missing & numpy.isfinite(counted)] if counted.dtype.kind == "f" else counted[~missing]
    return float(max(abs(float(valid.min())), abs(float(valid.max())))) if valid.size else 0.0
