"""Arrays with names, dimensions and attributes, as files hold them: nothing is decoded."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy

_LISTS = ("coordinates", "bounds", "climatology", "grid_mapping", "formula_terms", "cell_measures")
"""Attributes that name coordinates and other descriptions of the cells (sections 4 to 7 of the conventions)."""
_MESH = ("node_coordinates", "face_coordinates", "edge_coordinates", "connectivity")
"""Parts of the names of attributes that name the arrays of a mesh (the UGRID conventions)."""


@dataclass(frozen=True)
class Variable:
    """An array with names.

    Attributes:
        dims: Names of its dimensions.
        values: An array of numpy, or of any library whose arrays are read by indexing.
        attributes: Its attributes.
    """

    dims: tuple[str, ...]
    values: Any
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def dtype(self) -> numpy.dtype[Any]:
        """Type of the values; texts of any length are objects."""
        dtype: numpy.dtype[Any] = numpy.dtype(self.values.dtype)
        # h5py says in a type's metadata of which kind its texts are, and no other library keeps it.
        return dtype if dtype.metadata is None else numpy.dtype(dtype.str)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the values."""
        return tuple(self.values.shape)

    def at(self, places: Mapping[str, Any]) -> "Variable":
        """Take a part of the array.

        Args:
            places: A slice for each dimension that is to be cut; others are whole.
        """
        if not any(dim in places for dim in self.dims):
            return self
        key = tuple(places.get(dim, slice(None)) for dim in self.dims)
        return Variable(self.dims, self.values[key], self.attributes)

    def loaded(self) -> numpy.ndarray[Any, Any]:
        """Read all values.

        Returns:
            The values; texts of any length are texts of the greatest length among them.
        """
        if self.dims:
            values = numpy.asarray(self.values[...])
        else:
            # Numpy takes an empty text for a list of nothing.
            values = numpy.empty((), dtype=self.dtype)
            values[()] = self.values[()]
        if values.dtype.kind not in "OT":
            return values if values.dtype == self.dtype and not values.dtype.metadata else values.astype(self.dtype)
        texts = [each.decode() if isinstance(each, bytes) else str(each or "") for each in values.ravel().tolist()]
        # Numpy has no text of no length.
        return numpy.array(texts, dtype=numpy.dtype(f"U{max(map(len, texts), default=1) or 1}")).reshape(values.shape)


@dataclass(frozen=True)
class Dataset:
    """Variables that share dimensions.

    Attributes:
        variables: The variables by name.
        attributes: Attributes of the whole.
        unlimited: Dimensions that grow.
    """

    variables: Mapping[str, Variable]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    unlimited: tuple[str, ...] = ()

    @property
    def sizes(self) -> dict[str, int]:
        """Length of each dimension."""
        return {
            dim: length
            for variable in self.variables.values()
            for dim, length in zip(variable.dims, variable.shape, strict=True)
        }

    @property
    def coordinates(self) -> frozenset[str]:
        """Names of the variables that describe the cells of others."""
        named = {name for name, variable in self.variables.items() if name in variable.dims}
        for name, variable in self.variables.items():
            for attribute, value in variable.attributes.items():
                is_mesh = any(part in attribute for part in _MESH) or "cf_role" in variable.attributes
                if isinstance(value, str) and (attribute in _LISTS or is_mesh):
                    named.update(word.rstrip(":") for word in value.split())
            if "cf_role" in variable.attributes or "grid_mapping_name" in variable.attributes:
                named.add(name)
        return frozenset(named & self.variables.keys())

    def with_coordinates(self, names: Iterable[str]) -> "Dataset":
        """Take some variables, with the coordinates along their dimensions and those that they name."""
        wanted = set(names)
        while True:
            words = {
                word.rstrip(":")
                for name in wanted
                for attribute, value in self.variables[name].attributes.items()
                if attribute in _LISTS and isinstance(value, str)
                for word in value.split()
            }
            dims = {dim for name in wanted for dim in self.variables[name].dims}
            more = (words | dims) & self.variables.keys() - wanted
            if not more:
                break
            wanted |= more
        kept = {name: variable for name, variable in self.variables.items() if name in wanted}
        dims = {dim for variable in kept.values() for dim in variable.dims}
        return Dataset(kept, self.attributes, tuple(dim for dim in self.unlimited if dim in dims))

    def at(self, places: Mapping[str, Any]) -> "Dataset":
        """Take a part of every variable, as by `Variable.at`."""
        cut = {name: variable.at(places) for name, variable in self.variables.items()}
        return Dataset(cut, self.attributes, self.unlimited)

    def time_dimension(self) -> str | None:
        """Find the dimension along which the data go on: that of a coordinate of time; None where there is none."""
        for name, variable in self.variables.items():
            units = variable.attributes.get("units")
            if variable.dims == (name,) and isinstance(units, str) and " since " in units:
                return name
        return None
