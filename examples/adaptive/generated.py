"""Fields like those of the paper's three simulations, at any size: one seed and one step give one field.

They have the properties that make the analyses hard: structure at every scale down to the mesh, steep fronts, and
features that move from step to step.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import Delaunay

from adaptive.meshes import Mesh

Values = NDArray[np.float64]

_MODES = 192
"""Number of waves of a turbulent field; more waves do not show."""
_THICKNESS = 0.35
"""Radius of the jet's nose one unit of length behind its tip."""


@dataclass(frozen=True)
class PotentialPlane:
    """A poloidal plane of a tokamak: an annulus whose edge is turbulent and sheds blobs (XGC's dpot)."""

    mesh: Mesh
    seed: int
    blobs: int = 24

    def values(self, step: int) -> Values:
        """Compute the potential of a step.

        Args:
            step: Number of the step.

        Returns:
            Potential of each node in units of the edge's temperature, float64 of shape (nodes,).
        """
        generator = np.random.default_rng([self.seed, 1])
        radius = np.hypot(*self.mesh.nodes.T)
        angle = np.arctan2(self.mesh.nodes[:, 1], self.mesh.nodes[:, 0])
        # The turbulence is strongest at the edge, and the spectrum falls as that of drift waves.
        strength = 0.03 + 0.12 * np.exp(-(((radius - 0.9) / 0.12) ** 2))
        potential: Values = strength * _waves(self.mesh.nodes, generator, scale_max=0.5, slope=1.5, time=0.15 * step)
        for _ in range(self.blobs):
            born, where, speed, height = generator.uniform((0, -np.pi, 0.002, 0.6), (0.15, np.pi, 0.008, 1.4))
            width = generator.uniform(0.012, 0.035)
            # Blobs are born at 0.8, drift outwards, and begin again.
            center = 0.8 + (born + speed * step) % 0.17
            turn = np.angle(np.exp(1j * (angle - where - 0.01 * step)))
            distance = ((radius - center) / width) ** 2 + (turn * radius / (1.4 * width)) ** 2
            potential += height * np.exp(-distance / 2)
        return potential

    @property
    def threshold(self) -> float:
        """The potential above which a region counts as a blob."""
        return 0.4


def potential_plane(*, seed: int, nodes: int) -> PotentialPlane:
    """Make an annulus that is finer at its edge, and numbered flux surface by flux surface as in XGC.

    Args:
        seed: Seed of the nodes and of the field.
        nodes: Number of nodes.

    Returns:
        The plane.
    """
    generator = np.random.default_rng([seed, 0])
    radius = 1 - 0.7 * generator.beta(1.2, 2.0, nodes)
    angle = generator.uniform(-np.pi, np.pi, nodes)
    radius, angle = _in_rings(radius, angle)
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    triangles = Delaunay(points).simplices
    centers = points[triangles].mean(axis=1)
    # The hull spans the hole in the middle.
    return PotentialPlane(Mesh(points, triangles[np.hypot(*centers.T) > 0.32].astype(np.int32)), seed)


def collapse_velocity(*, seed: int, shape: tuple[int, ...], step: int = 0) -> Values:
    """Compute the magnitude of the velocity around a collapsing core (GenASiS).

    Behind a shock front that sloshes lies turbulence; before the front lies free fall.

    Args:
        seed: Seed of the field.
        shape: Shape of the field, of two or three dimensions.
        step: Number of the step.

    Returns:
        Velocity in units of the free fall at the shock, float64 of `shape`.
    """
    generator = np.random.default_rng([seed, 2])
    axes = [np.linspace(-1, 1, length) for length in shape]
    grid = np.meshgrid(*axes, indexing="ij")
    points = np.stack([axis.ravel() for axis in grid], axis=1)
    radius = np.linalg.norm(points, axis=1) + 1e-3
    tilt, phase = generator.uniform(0, 2 * np.pi, 2)
    direction = np.arctan2(points[:, -1], points[:, -2])
    # The standing accretion shock instability: a dipole that swings, and a quadrupole.
    front = 0.6 * (1 + 0.18 * np.cos(direction - tilt) * np.cos(0.2 * step + phase) + 0.06 * np.cos(2 * direction))
    components = [_waves(points, generator, scale_max=0.5, slope=5 / 6, time=0.2 * step) for _ in shape]
    turbulence = 0.12 * np.sqrt(sum(component**2 for component in components))
    settling = 0.25 * (radius / front) ** 2
    velocity: Values = np.where(radius < front, settling + turbulence, (front / radius) ** 0.5)
    return velocity.reshape(shape)


@dataclass(frozen=True)
class Nose:
    """The front of a jet: a surface in space, with the pressure of the stream that meets it."""

    mesh: Mesh
    seed: int

    def values(self, step: int) -> Values:
        """Compute the pressure of a step.

        Args:
            step: Number of the step.

        Returns:
            Coefficient of pressure of each node, float64 of shape (nodes,); 1 where the stream stops.
        """
        generator = np.random.default_rng([self.seed, 4])
        along, across, up = self.mesh.nodes.T
        attack = 0.12 + 0.04 * np.sin(0.1 * step)
        turn = np.arctan2(across, up)
        steepness = 0.5 * _THICKNESS / np.sqrt(along + 1e-3)
        normal = np.stack([-steepness, np.sin(turn), np.cos(turn)], axis=1)
        normal /= np.linalg.norm(normal, axis=1, keepdims=True)
        facing = -(normal @ np.array([np.cos(attack), 0.0, np.sin(attack)]))
        # Newton's law of impact where the stream hits, an expansion behind it.
        pressure: Values = np.where(facing > 0, 1.2 * facing**2, -0.3 * facing**2)
        boundary_layer = 0.02 + 0.06 * np.clip(along, 0, 1)
        pressure += boundary_layer * _waves(self.mesh.nodes, generator, scale_max=0.3, slope=1.0, time=0.3 * step)
        # A shock stands where the canopy begins, and fades down the sides.
        pressure += 0.25 / (1 + np.exp(-(along - 0.55 - 0.05 * np.cos(turn)) / 0.004)) * np.clip(5 * up, 0, 1)
        return pressure

    @property
    def threshold(self) -> float:
        """The coefficient of pressure that counts as high."""
        return 0.3


def nose(*, seed: int, nodes: int) -> Nose:
    """Make a nose of one unit of length, numbered ring by ring from its tip.

    Args:
        seed: Seed of the nodes and of the field.
        nodes: Number of nodes.

    Returns:
        The nose.
    """
    generator = np.random.default_rng([seed, 3])
    along = generator.uniform(0, 1, nodes) ** 1.5
    turn = generator.uniform(-np.pi, np.pi, nodes)
    along, turn = _in_rings(along, turn)
    # The surface unrolled: its nodes are triangulated there, and stay open along one line below.
    triangles = Delaunay(np.stack([along, 0.2 * turn], axis=1)).simplices
    thickness = _THICKNESS * np.sqrt(along)
    points = np.stack([along, thickness * np.sin(turn), thickness * np.cos(turn)], axis=1)
    return Nose(Mesh(points, triangles.astype(np.int32)), seed)


def _in_rings(across: Values, along: Values) -> tuple[Values, Values]:
    """Points in the order of rings of about equally many points: ring by ring, and along each ring."""
    count = len(across)
    ring = np.empty(count, dtype=np.int64)
    ring[np.argsort(across)] = np.arange(count) * int(count**0.5) // count
    order = np.lexsort((along, ring))
    return across[order], along[order]


def _waves(points: Values, generator: np.random.Generator, *, scale_max: float, slope: float, time: float) -> Values:
    """A sum of plane waves with wavelengths from `scale_max` down to the mesh's, of mean square 1.

    The amplitude falls with the wave number to the power `-slope`; each wave travels at a speed of its own.
    """
    dimensions = points.shape[1]
    spacing = 2 / len(points) ** (1 / dimensions)
    wavelengths = np.geomspace(scale_max, min(4 * spacing, scale_max), _MODES)
    numbers = 2 * np.pi / wavelengths
    directions = generator.normal(size=(_MODES, dimensions))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    phases = generator.uniform(0, 2 * np.pi, _MODES)
    speeds = generator.normal(0, 1, _MODES)
    amplitudes = numbers**-slope
    amplitudes *= np.sqrt(2 / (amplitudes**2).sum())
    total = np.zeros(len(points))
    for number, direction, phase, speed, amplitude in zip(numbers, directions, phases, speeds, amplitudes, strict=True):
        total += amplitude * np.cos(points @ (number * direction) + phase + speed * time)
    return total
