"""Readers of a server's own load: `/proc/loadavg`, `/proc/meminfo`, `/proc/stat`, and LNet's counters."""

from dataclasses import dataclass

from weir.lustre.text import Place, lines

_LNET_FIELDS = 11
_KIBIBYTE = 1024


@dataclass(frozen=True, slots=True)
class LoadAverage:
    """Mean numbers of processes that run or wait for a disk (proc(5)); an OSS's waiting threads are among them."""

    one_minute: float
    five_minutes: float
    fifteen_minutes: float


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of a host."""

    total_bytes: int
    available_bytes: int
    """Memory that programs could still have; free memory and caches where the kernel does not tell it (before 3.14)."""

    @property
    def used_fraction(self) -> float:
        """Part of the memory that programs cannot have, from 0 to 1."""
        return 1.0 - min(1.0, self.available_bytes / self.total_bytes)


@dataclass(frozen=True, slots=True)
class Processors:
    """Time of all processors since boot, in the kernel's ticks."""

    count: int
    busy_ticks: int
    total_ticks: int


@dataclass(frozen=True, slots=True)
class Network:
    """LNet's counters since it was loaded, or since they were cleared."""

    errors: int
    sent_messages: int
    received_messages: int
    dropped_messages: int
    sent_bytes: int
    received_bytes: int


def parse_loadavg(text: str, source: str) -> LoadAverage:
    """Read `/proc/loadavg`.

    Args:
        text: Content of the file.
        source: Path of the file, for errors.

    Returns:
        The averages over one, five and fifteen minutes.

    Raises:
        MalformedError: The text is no such file. The error names `source`.
    """
    place = _only_line(text, source)
    words = place.text.split()
    if len(words) < 3:
        place.malformed("three load averages")
    one, five, fifteen = (place.decimal(word, "three load averages") for word in words[:3])
    return LoadAverage(one, five, fifteen)


def parse_meminfo(text: str, source: str) -> Memory:
    """Read `/proc/meminfo`.

    Args:
        text: Content of the file.
        source: Path of the file, for errors.

    Returns:
        Total and available memory.

    Raises:
        MalformedError: The text is no such file. The error names `source` and the line.
    """
    sizes: dict[str, int] = {}
    for place in lines(text, source):
        name, colon, value = place.text.partition(":")
        words = value.split()
        if not colon or not words:
            place.malformed("`NAME: N kB`")
        sizes[name] = place.count(words[0], "`NAME: N kB`") * _KIBIBYTE
    first = Place(source, 1, text.split("\n", 1)[0])
    if sizes.get("MemTotal", 0) == 0:
        first.malformed("a `MemTotal` above 0")
    if "MemAvailable" in sizes:
        available_bytes = sizes["MemAvailable"]
    elif "MemFree" in sizes:
        available_bytes = sizes["MemFree"] + sizes.get("Buffers", 0) + sizes.get("Cached", 0)
    else:
        first.malformed("a `MemAvailable` or a `MemFree`")
    return Memory(sizes["MemTotal"], min(available_bytes, sizes["MemTotal"]))


def parse_stat(text: str, source: str) -> Processors:
    """Read the time of all processors from `/proc/stat`.

    Args:
        text: Content of the file.
        source: Path of the file, for errors.

    Returns:
        Number of processors, and their busy and total time in ticks.

    Raises:
        MalformedError: The text is no such file. The error names `source` and the line.
    """
    count, ticks = 0, None
    for place in lines(text, source):
        name, *words = place.text.split()
        if name == "cpu":
            if len(words) < 5:
                place.malformed("`cpu` and at least five numbers")
            # user nice system idle iowait irq softirq steal; guest time is part of user (proc(5)).
            ticks = [place.count(word, "a number of ticks") for word in words[:8]]
        elif name.startswith("cpu"):
            count += 1
    if ticks is None or count == 0:
        Place(source, 1, text.split("\n", 1)[0]).malformed("a `cpu` line and one for each processor")
    total = sum(ticks)
    return Processors(count, total - ticks[3] - ticks[4], total)


def parse_lnet_stats(text: str, source: str) -> Network:
    """Read LNet's `stats` file, which lies in `/proc/sys/lnet`, and from Lustre 2.7 in `/sys/kernel/debug/lnet`.

    The order of the numbers is that of `lnet_counters`: msgs_alloc msgs_max errors send_count recv_count route_count
    drop_count send_length recv_length route_length drop_length.

    Args:
        text: Content of the file.
        source: Path of the file, for errors.

    Raises:
        MalformedError: The text is no such file. The error names `source`.
    """
    place = _only_line(text, source)
    words = place.text.split()
    if len(words) != _LNET_FIELDS:
        place.malformed(f"{_LNET_FIELDS} numbers")
    numbers = [place.count(word, f"{_LNET_FIELDS} numbers") for word in words]
    return Network(
        errors=numbers[2],
        sent_messages=numbers[3],
        received_messages=numbers[4],
        dropped_messages=numbers[6],
        sent_bytes=numbers[7],
        received_bytes=numbers[8],
    )


def _only_line(text: str, source: str) -> Place:
    found = lines(text, source)
    if len(found) != 1:
        (found[1] if found else Place(source, 1, "")).malformed("one line")
    return found[0]
