"""The kinds of plug-ins, each with its group of entry points and its methods."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of plug-ins."""

    name: str
    """Its name for people, such as `interference model`."""
    group: str
    """Its group of entry points, such as `weir.codecs`."""
    methods: tuple[str, ...]
    """Methods that a plug-in has."""
    purpose: str
    """The purpose of a plug-in, in one line."""
    is_seeded: bool = False
    """Whether a plug-in is made with `seed`, a whole number; others are made without arguments."""

    @property
    def page(self) -> str:
        """Its page in the documentation."""
        return f"docs/extend/{self.name.replace(' ', '-')}.md"


FORECASTER = Kind("forecaster", "weir.forecasters", ("fit",), "forecasts the next values of a series")
ALLOCATOR = Kind("allocator", "weir.allocators", ("allocate",), "chooses the targets of stripes", is_seeded=True)
SCHEDULER = Kind("scheduler", "weir.schedulers", ("choose",), "chooses whom a device serves next", is_seeded=True)
CODEC = Kind("codec", "weir.codecs", ("encode", "decode"), "cuts an array into parts, each of which makes it better")
INTERFERENCE_MODEL = Kind(
    "interference model",
    "weir.interference_models",
    ("fit", "probabilities"),
    "learns from windows how much a job is slowed",
    is_seeded=True,
)
WORKLOAD = Kind("workload", "weir.workloads", ("work",), "makes the work of a job")

KINDS = {kind.name: kind for kind in (FORECASTER, ALLOCATOR, SCHEDULER, CODEC, INTERFERENCE_MODEL, WORKLOAD)}
"""The kinds by their names."""
