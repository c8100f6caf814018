"""The rules of a report: a table of faults, each with its trigger, its number, its confidence and its remedy.

Thresholds marked `Drishti` are those of Drishti (J. L. Bez, H. Ather, S. Byna: Drishti: Guiding End-Users in the I/O
Optimization Journey, PDSW 2022; https://github.com/hpc-io/drishti-io, `drishti/includes/config.py` at 0e8b398). They
judge counters of a log. Where the store knows more, a rule asks the store: whom the job waited for, what a device did
for it, and what a request costs there.
"""

import statistics
from collections.abc import Callable, Sequence
from typing import Literal

from weir.amounts import size_text
from weir.report import habits
from weir.report.facts import SMALL_BYTES, Facts, File, Target, Transfers
from weir.report.findings import Finding, Found, Rule

_WEIGHTS: dict[str, float] = {"high": 1.0, "medium": 0.6, "low": 0.3}

SMALL_PART, SMALL_COUNT = 0.1, 1000
"""Drishti: `small_requests` and `small_requests_absolute`."""
RANDOM_PART, RANDOM_COUNT = 0.2, 1000
"""Drishti: `random_operations` and `random_operations_absolute`."""
UNALIGNED_PART = 0.1
"""Drishti: `misaligned_requests`."""
METADATA_SECONDS = 30.0
"""Drishti: `metadata_time_rank`, of one process."""
STRAGGLER_PART = 0.15
"""Drishti: `imbalance_stragglers`."""
STREAMED_PART = 0.1
"""Drishti: `interface_stdio`."""
COLLECTIVE_PART, COLLECTIVE_COUNT = 0.5, 1000
"""Drishti: `collective_operations` and `collective_operations_absolute`."""
METADATA_PART, METADATA_COUNT = 0.5, 1000
"""Part of all requests, and of the time in requests, from which metadata dominates a job."""
SLOWED = 1.25
"""Slowdown from which others count: time with and without waiting for them, over that without."""
SHORT = 0.9
"""Part of the owed share below which a job received too little."""
SLOW_RATE = 0.5
"""Part of the other targets' median rate below which a target is slow; healthy ones of a class differ by less."""
SLOW_SECONDS = 1.0
"""Least time lost at a target that the store does not call slow: a busy machine holds a healthy one up for less."""
CROWDED, CROWDED_BUSY = 2.0, 0.3
"""Bytes on the fullest target over the mean of all, and part of the job's active time in which that target worked."""
SYNC_PART, SYNC_COUNT = 0.5, 100
"""Syncs for each write, and their number."""
ALONE_MIN, ALONE = 0.5, 1.1
"""Requests at once, on average, between which a job waits for each of them; below it mostly does something else."""
IDLE_BUSY = 0.5
"""Part of the time in requests in which a job's busiest target worked, below which the job could have used it more."""
FULL = 0.95
"""Part of a target's room."""
PREDICTED_PART = 0.1
"""Part of the windows for which a slowdown of two or more was predicted."""


def findings_of(facts: Facts) -> list[Finding]:
    """Apply all rules.

    Returns:
        The findings, most valuable first: by estimated seconds times confidence, and those without an estimate last.
    """
    found = [
        Finding(rule.name, rule.title, *(getattr(each, name) for name in Found.__dataclass_fields__))
        for rule in RULES
        if (each := rule.find(facts)) is not None
    ]
    return sorted(found, key=lambda finding: -(finding.seconds or 0.0) * _WEIGHTS[finding.confidence])


def _neighbour(facts: Facts) -> Found | None:
    promise = facts.promise
    if promise is None or promise.device_seconds <= 0:
        return None
    slowdown = 1.0 + promise.waited_seconds / promise.device_seconds
    if slowdown < SLOWED:
        return None
    culprits = _culprits(facts)
    whom = f", mostly for {culprits[0]}" if culprits else ""
    is_unfair = promise.policy == "fifo"
    return Found(
        f"While it had requests queued, targets worked {promise.waited_seconds:.1f} s for other jobs{whom}, beside "
        f"{promise.device_seconds:.1f} s for this one.",
        slowdown, "times the time alone", promise.lost_seconds,
        "high" if culprits else "medium",
        "the servers measured it for each job" if culprits else "the windows are labelled, and name no other job",
        "The policy fifo lets whoever asks most have most: divide the time by the sizes of jobs."
        if is_unfair
        else "Let the guard protect jobs that others slow, or plan storage of the job's own.",
        "weir policy set size-fair" if is_unfair else f"weir guard --slowdown {max(slowdown * 0.8, 1.2):.1f}",
        culprits,
    )  # fmt: skip


def _culprits(facts: Facts) -> tuple[str, ...]:
    """The jobs that were waited for, the longest first."""
    sums: dict[tuple[str, str], float] = {}
    for wait in facts.waits:
        if wait.job:
            sums[wait.job, wait.user] = sums.get((wait.job, wait.user), 0.0) + wait.seconds
    ordered = sorted(sums.items(), key=lambda item: -item[1])
    return tuple(f"{job} of {user} ({seconds:.1f} s)" for (job, user), seconds in ordered[:5])


def _short_share(facts: Facts) -> Found | None:
    promise = facts.promise
    if promise is None or not promise.share_owed or promise.share_received is None:
        return None
    part = promise.share_received / promise.share_owed
    if part >= SHORT or promise.waited_seconds <= 0:
        return None
    return Found(
        f"The policy owed the job {promise.share_owed:.1%} of the contended device time, and it received "
        f"{promise.share_received:.1%}.",
        part, "of the owed share", promise.lost_seconds * (1.0 - part), "medium",
        "the servers account both, but a job that asks too little receives less by its own doing",
        "Look whether the job had requests waiting all the time, and let the guard raise its weight while it has.",
        "weir guard --actions weight",
    )  # fmt: skip


def _slow_target(facts: Facts) -> Found | None:
    if facts.slow_targets:
        worst = max(facts.slow_targets, key=lambda slow: slow.lost_seconds)
        return Found(
            f"{worst.name} served {size_text(worst.bytes_per_second)}/s where the other targets' median was "
            f"{size_text(worst.usual_bytes_per_second)}/s.",
            worst.bytes_per_second / worst.usual_bytes_per_second, "of the usual rate", worst.lost_seconds, "high",
            "files that lie on this target alone took as much longer",
            "Keep the job's files off this target until it is mended; placement by prediction does so by itself.",
            f"weir place --lustre LFS_DF --from {_log_of(facts)} --database placement.db",
            tuple(slow.name for slow in facts.slow_targets),
        )  # fmt: skip
    rates = {target: target.bytes / target.seconds for target in _movers(facts) if target.seconds > 0}
    if len(rates) < 2 or not facts.is_store:
        return None
    usual = {
        target: statistics.median(rate for other, rate in rates.items() if other is not target) for target in rates
    }
    lost_at = {target: max(target.seconds - target.bytes / usual[target], 0.0) for target in rates}
    slow = [
        target for target in rates
        if target.is_slow or (rates[target] < SLOW_RATE * usual[target] and lost_at[target] >= SLOW_SECONDS)
    ]  # fmt: skip
    if not slow:
        return None
    worst_target = min(slow, key=lambda target: rates[target] / usual[target])
    lost = sum(lost_at[target] for target in slow)
    is_told = any(target.is_slow for target in slow)
    return Found(
        f"Target {worst_target.name} moved {size_text(rates[worst_target])} in each second that it worked, where the "
        f"others' median was {size_text(usual[worst_target])}.",
        rates[worst_target] / usual[worst_target], "of the usual rate", lost, "high" if is_told else "medium",
        "the store noted it as slow" if is_told else "the job's own requests took so long there",
        "Move the files away, so that the target gets no new ones until it is mended.",
        f"weir target retire {worst_target.name}",
        tuple(target.name for target in slow),
    )  # fmt: skip


def _log_of(facts: Facts) -> str:
    return facts.source.removeprefix("the Darshan log ")


def _movers(facts: Facts) -> list[Target]:
    return [target for target in facts.targets if not target.is_metadata and target.bytes >= habits.MOVED_MIN]


def _one_target(facts: Facts) -> Found | None:
    targets = [target for target in facts.targets if not target.is_metadata]
    moved = sum(target.bytes for target in targets)
    if not facts.is_store:
        return _one_stripe(facts)
    if len(targets) < 2 or moved < habits.MOVED_MIN * len(targets):
        return None
    fullest = max(targets, key=lambda target: target.bytes)
    ratio = fullest.bytes * len(targets) / moved
    busy = fullest.seconds / facts.active_seconds if facts.active_seconds else 1.0
    if ratio < CROWDED or busy < CROWDED_BUSY:
        return _shared_on_one(facts, targets, busy)
    files = sorted((each for each in facts.files if fullest.name in each.targets), key=lambda each: -each.operations)
    lost = fullest.seconds * (1.0 - 1.0 / ratio)
    return Found(
        f"{fullest.bytes / moved:.0%} of the bytes lay on target {fullest.name}, {ratio:.1f} times the mean of the "
        f"store's {len(targets)} targets, and it worked in {min(busy, 1.0):.0%} of the job's time.",
        ratio, "times the mean target", lost, "high", "the servers count the bytes of each target",
        "Give the folder's new files more stripes, or have the job's files placed by its last runs.",
        f"weir layout set -c -1 {_folder(files)}",
        tuple(each.path for each in files[:5]) or (fullest.name,),
    )  # fmt: skip


def _shared_on_one(facts: Facts, targets: Sequence[Target], busy: float) -> Found | None:
    """Files that several processes share, on one of the store's targets, which is not busy enough to cost much yet."""
    shared = [
        file for file in facts.files
        if len(file.targets) == 1 and file.processes > 1
        and file.read_bytes + file.written_bytes >= habits.MOVED_MIN * len(targets)
    ]  # fmt: skip
    if not shared:
        return None
    worst = max(shared, key=lambda file: file.read_bytes + file.written_bytes)
    return Found(
        f"{worst.processes} processes share {worst.path} of {size_text(worst.size_bytes)}, which lies on 1 of "
        f"{len(targets)} targets; that one worked in {min(busy, 1.0):.0%} of the job's time.",
        1.0, f"of {len(targets)} targets", None, "low",
        "the file has this layout; the target was not busy enough for it to cost much here",
        "Give the folder's new files more stripes, before more processes or larger files make it matter.",
        f"weir layout set -c -1 {_folder(shared)}",
        tuple(file.path for file in shared[:5]),
    )  # fmt: skip


def _one_stripe(facts: Facts) -> Found | None:
    """Files on Lustre that many processes share, on one OST."""
    crowded = [
        file for file in facts.files
        if len(file.targets) == 1 and file.processes > 1 and file.read_bytes + file.written_bytes >= habits.MOVED_MIN
    ]  # fmt: skip
    if not crowded:
        return None
    worst = max(crowded, key=lambda file: (file.slowest_seconds, file.processes))
    return Found(
        f"{worst.processes} processes share {worst.path} of {size_text(worst.size_bytes)}, which lies on "
        f"{worst.targets[0]} alone.",
        worst.processes, "processes on one target", worst.mean_seconds * 0.5 or None, "medium",
        "the log has the file's layout; how much more targets bring depends on the accesses",
        "Stripe the file over more targets before it is made.",
        f"lfs setstripe -c -1 {_folder(crowded)}",
        tuple(file.path for file in crowded[:5]),
    )  # fmt: skip


def _folder(files: Sequence[File]) -> str:
    return files[0].path.rpartition("/")[0] or "/" if files else "FOLDER"


def _small(way: Literal["reads", "writes"]) -> Callable[[Facts], Found | None]:
    def find(facts: Facts) -> Found | None:
        transfers: Transfers = getattr(facts.accesses, way)
        part = transfers.small / transfers.sized if transfers.sized else 0.0
        if part < SMALL_PART or transfers.small < SMALL_COUNT:
            return None
        mean = transfers.bytes / max(transfers.operations, 1)
        fixed = _fixed_seconds(facts)
        by_cost = max(transfers.operations - transfers.bytes / (1 << 20), 0.0) * (fixed or 0.0)
        lost = max(transfers.seconds / facts.processes_at_once * part * 0.5, by_cost)
        files = [file for file in facts.files if file.small] or _of_small_writes(facts, way)
        verb = "read" if way == "reads" else "write"
        return Found(
            f"{transfers.small:,} of {transfers.sized:,} {way} ({part:.0%}) are below 1 MiB; the mean is "
            f"{size_text(mean)}"
            + ("." if fixed is None else f", and each costs {fixed * 1e6:.0f} us beside its bytes."),
            part, f"of the {way}", lost, "high" if facts.accesses.is_exact else "medium",
            "each call was counted" if facts.accesses.is_exact else "the windows have the mean sizes of requests",
            f"Gather records and {verb} them in pieces of 1 MiB or more: in a buffer of the program, by collective "
            "I/O, or in larger chunks of HDF5 or netCDF.",
            f"setvbuf(file, NULL, _IOFBF, 4 << 20)  # Python: open(path, '{'rb' if verb == 'read' else 'wb'}', "
            "buffering=4 << 20)",
            tuple(file.path for file in files[:5]),
        )  # fmt: skip

    return find


def _of_small_writes(facts: Facts, way: str) -> list[File]:
    """Files of which opens and bytes are known, and no single access."""
    if facts.accesses.is_exact or way == "reads":
        return []
    found = [each for each in facts.files if each.opens and 0 < each.written_bytes < SMALL_BYTES * each.opens]
    return sorted(found, key=lambda each: -each.opens)


def _fixed_seconds(facts: Facts) -> float | None:
    return max(
        (each.fixed_seconds for each in facts.targets if each.fixed_seconds and not each.is_metadata), default=None
    )


def _random(way: Literal["reads", "writes"]) -> Callable[[Facts], Found | None]:
    def find(facts: Facts) -> Found | None:
        transfers: Transfers = getattr(facts.accesses, way)
        part = transfers.astray / transfers.placed if transfers.placed else 0.0
        is_backward = way == "reads" and part >= habits.BACKWARD_PART
        if part < RANDOM_PART or transfers.astray < RANDOM_COUNT or is_backward:
            return None
        apart = max(transfers.apart, transfers.astray) / transfers.placed
        files = sorted((file for file in facts.files if file.astray), key=lambda file: -file.astray)
        is_read = way == "reads"
        return Found(
            _order_words(transfers, way),
            apart, f"of the {way}", transfers.seconds / facts.processes_at_once * apart * 0.5, "high",
            "each access was compared with the one before",
            "Sort the accesses by offset, or read the part that is needed once and take from memory."
            if is_read else "Write from front to end, or let collective I/O order the pieces.",
            "posix_fadvise(file, 0, 0, POSIX_FADV_WILLNEED)  # and sort offsets before reading"
            if is_read else "MPI_File_write_at_all(...)",
            tuple(file.path for file in files[:5]),
        )  # fmt: skip

    return find


def _order_words(transfers: Transfers, way: str) -> str:
    if transfers.apart > transfers.astray:
        part = transfers.apart / transfers.placed
        return (
            f"{transfers.apart:,} of {transfers.placed:,} {way} ({part:.0%}) begin elsewhere than at the end of the "
            f"one before, and {transfers.astray:,} of these before it."
        )
    part = transfers.astray / transfers.placed
    return f"{transfers.astray:,} of {transfers.placed:,} {way} ({part:.0%}) begin before the end of the one before."


def _unaligned(facts: Facts) -> Found | None:
    accesses = facts.accesses
    part = accesses.unaligned / accesses.alignable if accesses.alignable else 0.0
    moved = accesses.reads.bytes + accesses.writes.bytes
    operations = accesses.reads.operations + accesses.writes.operations
    # Pieces below a block cannot all be aligned, and the rules of small accesses find them.
    if part < UNALIGNED_PART or not operations or moved / operations < 4096:
        return None
    files = sorted((file for file in facts.files if file.unaligned), key=lambda file: -file.unaligned)
    seconds = accesses.reads.seconds + accesses.writes.seconds
    return Found(
        f"{accesses.unaligned:,} of {accesses.alignable:,} reads and writes ({part:.0%}) begin within a block.",
        part, "of the accesses", seconds / facts.processes_at_once * part * 0.1,
        "high" if accesses.is_exact else "medium",
        "each offset was looked at; the cost of one is a guess",
        "Begin pieces at multiples of the block, and pad headers to one.",
        "H5Pset_alignment(access, 1 << 20, 1 << 20)  # netCDF-4: nc__enddef with h_minfree, v_align",
        tuple(file.path for file in files[:5]),
    )  # fmt: skip


def _metadata(facts: Facts) -> Found | None:
    accesses = facts.accesses
    each = accesses.metadata_seconds / facts.processes_at_once
    transfers = (accesses.reads, accesses.writes)
    operations = accesses.metadata + sum(one.operations for one in transfers)
    moving = sum(one.seconds for one in transfers)
    part = accesses.metadata / operations if operations else 0.0
    of_time = accesses.metadata_seconds / (accesses.metadata_seconds + moving) if accesses.metadata_seconds else 0.0
    is_most = part >= METADATA_PART and of_time >= METADATA_PART and accesses.metadata >= METADATA_COUNT
    if not is_most and each < METADATA_SECONDS:
        return None
    lost = min(each, facts.active_seconds or each)
    return Found(
        f"{accesses.metadata:,} requests ({part:.0%} of all) move no bytes, and take {of_time:.0%} of the time in "
        f"requests, {each:.1f} s of each process.",
        each, "s of each process", lost, "high", "each request was counted, and its time",
        "Open files once, keep them open, and pack small ones into one; give such folders homes on all servers.",
        "weir layout set --spread FOLDER" if facts.is_store else "lfs mkdir -c -1 FOLDER",
        (*habits.folders_of(facts), *(target.name for target in facts.targets if target.is_metadata))[:8],
    )  # fmt: skip


def _syncs(facts: Facts) -> Found | None:
    syncs, writes = facts.accesses.syncs, facts.accesses.writes
    if syncs is None or syncs < SYNC_COUNT or syncs < SYNC_PART * writes.operations:
        return None
    part = min(syncs / max(writes.operations, 1), 1.0)
    return Found(
        f"{syncs:,} calls make {writes.operations:,} writes durable, {syncs / max(writes.operations, 1):.1f} for each.",
        syncs, "syncs", writes.seconds / facts.processes_at_once * part * 0.5, "medium",
        "the calls were counted; their time is within that of the writes",
        "Make bytes durable at the end of a step, and not after each write.",
        "fsync(file)  # once a step",
    )  # fmt: skip


def _one_at_a_time(facts: Facts) -> Found | None:
    targets = [target for target in facts.targets if not target.is_metadata]
    if (
        facts.under_way is None
        or not ALONE_MIN <= facts.under_way <= ALONE
        or len(targets) < 2
        or facts.active_seconds < 1.0
        or (facts.processes or 1) > 1
    ):
        return None
    # Outside of its requests a job keeps no target waiting.
    in_requests = facts.active_seconds * min(facts.under_way, 1.0)
    busiest = max(target.seconds for target in targets) / in_requests
    if busiest >= IDLE_BUSY:
        return None
    return Found(
        f"The job's one process has {facts.under_way:.1f} requests under way on average, and its busiest target works "
        f"in {busiest:.0%} of their time.",
        facts.under_way, "requests at once", in_requests * (1.0 - busiest) * (1.0 - 1.0 / len(targets)) * 0.25, "low",
        "more at once helps where the program can have them",
        "Read and write from several threads or processes, so that several targets work at a time.",
        "xargs -P 8  # or threads: pread and pwrite need no lock",
    )  # fmt: skip


def _stragglers(facts: Facts) -> Found | None:
    shared = [file for file in facts.files if file.processes > 1 and file.slowest_seconds > 0 and file.mean_seconds > 0]
    if not shared:
        return None
    worst = max(shared, key=lambda file: file.slowest_seconds - file.mean_seconds)
    part = 1.0 - worst.mean_seconds / worst.slowest_seconds
    lost = worst.slowest_seconds - worst.mean_seconds
    if part < STRAGGLER_PART or lost < 0.01 * facts.seconds:
        return None
    return Found(
        f"The slowest of {worst.processes} processes needs {worst.slowest_seconds:.1f} s for {worst.path}, and the "
        f"mean {worst.mean_seconds:.1f} s.",
        part, "of the slowest process' time", lost, "medium",
        "the log has the slowest process and the sum of all; why it is slow, it does not tell",
        "Give all processes as much to move, or let collective I/O do so.",
        "MPI_Info_set(info, \"romio_cb_write\", \"enable\")",
        (worst.path,),
    )  # fmt: skip


def _independent(facts: Facts) -> Found | None:
    accesses = facts.accesses
    whole = accesses.independent + accesses.collective
    shared = [file for file in facts.files if file.processes > 1 and file.small]
    if not whole and sum(file.small for file in shared) >= COLLECTIVE_COUNT:
        return _without_mpi_io(shared)
    part = accesses.collective / whole if whole else 1.0
    if part >= COLLECTIVE_PART or accesses.independent < COLLECTIVE_COUNT or facts.processes_at_once < 2:
        return None
    return Found(
        f"{accesses.independent:,} of {whole:,} reads and writes of MPI-IO are made by each process alone.",
        1.0 - part, "of the MPI-IO calls", None, "medium", "the calls were counted; some patterns are better alone",
        "Use the collective calls, which gather the pieces of many processes into few large accesses.",
        "MPI_File_write_at_all(...)  # HDF5: H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE)",
    )  # fmt: skip


def _without_mpi_io(shared: Sequence[File]) -> Found:
    small = sum(file.small for file in shared)
    return Found(
        f"{small:,} small accesses to files that several processes share are made without MPI-IO.",
        small, "small accesses to shared files", None, "medium",
        "the calls were counted; some programs cannot wait for others",
        "Use MPI-IO, or HDF5 or netCDF on it, whose collective calls gather the pieces of many processes.",
        "MPI_File_write_at_all(...)  # HDF5: H5Pset_fapl_mpio(access, communicator, info)",
        tuple(file.path for file in shared[:5]),
    )  # fmt: skip


def _streams(facts: Facts) -> Found | None:
    moved = facts.read_bytes + facts.written_bytes
    streamed = facts.accesses.streamed_bytes or 0
    if not moved or streamed / moved < STREAMED_PART:
        return None
    return Found(
        f"{size_text(streamed)} of {size_text(moved)} ({streamed / moved:.0%}) go through streams of the C library.",
        streamed / moved, "of the bytes", None, "medium", "the bytes were counted; large buffers make streams as good",
        "Use read and write, or MPI-IO, or give the streams buffers of some MiB.",
        "setvbuf(file, NULL, _IOFBF, 4 << 20)",
    )  # fmt: skip


def _full_target(facts: Facts) -> Found | None:
    full = [each for each in facts.targets if each.fill is not None and each.fill >= FULL]
    if not full:
        return None
    worst = max(full, key=lambda target: target.fill or 0.0)
    return Found(
        f"Target {worst.name} is {worst.fill:.0%} full.", worst.fill or 0.0, "of its room", None, "high",
        "the server tells its room", "Move stripes to emptier targets, before writes fail.", "weir rebalance",
        tuple(target.name for target in full),
    )  # fmt: skip


def _failed_target(facts: Facts) -> Found | None:
    failed = tuple(target.name for target in facts.targets if target.is_failed)
    if not failed:
        return None
    return Found(
        f"Target {failed[0]} has failed: the bytes on it answer EIO.", len(failed), "targets", None, "high",
        "the server says so", "See why, and bring its folder back, or take the target out.",
        f"weir target retire {failed[0]}", failed,
    )  # fmt: skip


def _predicted(facts: Facts) -> Found | None:
    predicted = facts.predicted
    if predicted is None or not predicted.windows or predicted.slowed / predicted.windows < PREDICTED_PART:
        return None
    return Found(
        f"For {predicted.slowed} of {predicted.windows} windows a slowdown of two or more was likely, at worst "
        f"{predicted.worst:g} (basis: {predicted.basis}).",
        predicted.slowed / predicted.windows, "of the windows", None, "medium", "predictions are right in most windows",
        "Let the guard act on the predictions while such jobs run.", "weir guard --served",
        (predicted.responsible,) if predicted.responsible else (),
    )  # fmt: skip


_OWN = "Weir"
_DRISHTI = "Drishti"
RULES: tuple[Rule, ...] = (
    Rule("neighbour", "Other jobs slow it", f"time with waits at least {SLOWED} times that without", _OWN, _neighbour),
    Rule("share", "It received less than owed", f"received below {SHORT:.0%} of the owed share", _OWN, _short_share),
    Rule(
        "slow-target", "A target is slow",
        f"noted by the store, or below {SLOW_RATE:.0%} of the others' median rate and {SLOW_SECONDS:g} s lost; in logs "
        "25 %",
        _OWN, _slow_target,
    ),
    Rule(
        "one-target", "Files lie on few targets",
        f"{CROWDED:g} times the mean target, busy {CROWDED_BUSY:.0%} of the time; or one target for a shared file",
        _OWN, _one_target,
    ),
    Rule(
        "small-writes", "Small writes", f"{SMALL_PART:.0%} of the writes below 1 MiB, and {SMALL_COUNT:,}", _DRISHTI,
        _small("writes"),
    ),
    Rule(
        "small-reads", "Small reads", f"{SMALL_PART:.0%} of the reads below 1 MiB, and {SMALL_COUNT:,}", _DRISHTI,
        _small("reads"),
    ),
    Rule(
        "random-reads", "Reads in random order", f"{RANDOM_PART:.0%} of the reads, and {RANDOM_COUNT:,}", _DRISHTI,
        _random("reads"),
    ),
    Rule(
        "random-writes", "Writes in random order", f"{RANDOM_PART:.0%} of the writes, and {RANDOM_COUNT:,}", _DRISHTI,
        _random("writes"),
    ),
    Rule(
        "backward-reads", "Reads go backwards",
        f"{habits.BACKWARD_PART:.0%} of the reads begin before the end of the one before, and "
        f"{habits.BACKWARD_COUNT:,}",
        _OWN, habits.backward_reads,
    ),
    Rule("unaligned", "Unaligned accesses", f"{UNALIGNED_PART:.0%} of those of a block or more", _DRISHTI, _unaligned),
    Rule(
        "metadata", "Many requests that move no bytes",
        f"{METADATA_SECONDS:g} s of each process (Drishti); or {METADATA_PART:.0%} of the requests and of their time, "
        f"and {METADATA_COUNT:,}",
        f"{_DRISHTI}, {_OWN}", _metadata,
    ),
    Rule("syncs", "Writes are made durable one by one", f"a sync for each {1 / SYNC_PART:g} writes", _OWN, _syncs),
    Rule(
        "one-at-a-time", "One request at a time",
        f"{ALONE_MIN} to {ALONE} of one process under way on average, the busiest target idle for {1 - IDLE_BUSY:.0%}",
        _OWN, _one_at_a_time,
    ),
    Rule(
        "stragglers", "Some processes need longer", f"the mean {STRAGGLER_PART:.0%} below the slowest", _DRISHTI,
        _stragglers,
    ),
    Rule(
        "independent", "No collective I/O",
        f"under {COLLECTIVE_PART:.0%} collective, and {COLLECTIVE_COUNT:,} independent; or as many small shared "
        "accesses without it",
        _DRISHTI, _independent,
    ),
    Rule("streams", "Streams of the C library", f"{STREAMED_PART:.0%} of the bytes", _DRISHTI, _streams),
    Rule("reread", "Files are read again", f"{habits.REREAD:g} times their size by one process", _OWN, habits.reread),
    Rule(
        "read-back", "What was written is read back",
        f"{habits.READ_BACK:.0%} of a file's written bytes, by the process that wrote them", _OWN, habits.read_back,
    ),
    Rule(
        "reopened", "A file is opened in a loop",
        f"{habits.OPENED} times by each process, for {habits.OPENED_OPERATIONS:g} accesses or fewer", _OWN,
        habits.reopened,
    ),
    Rule(
        "many-files", "Many small files",
        f"{habits.TINY_COUNT:,} of less than 1 MiB on average; {habits.TINY_OPENED} where most requests move no bytes",
        _OWN, habits.many_small_files,
    ),
    Rule(
        "one-rank", "One rank moves the bytes of all", f"{habits.ALONE_PART:.0%} of the bytes of several ranks", _OWN,
        habits.one_rank,
    ),
    Rule("full-target", "A target is nearly full", f"{FULL:.0%} of its room", _OWN, _full_target),
    Rule("failed-target", "A target has failed", "the server says so", _OWN, _failed_target),
    Rule("predicted", "Slowdowns were predicted", f"{PREDICTED_PART:.0%} of the windows", _OWN, _predicted),
)  # fmt: skip
"""All rules. Findings of equal value keep this order."""
