"""Rules about the habits of a program: how it opens, reads again, reads back, and shares its files among processes."""

from weir.amounts import size_text
from weir.report.facts import Facts, File
from weir.report.findings import Found

MOVED_MIN = 4 << 20
"""Least bytes of a file, or of a target, so that what is said of them means something."""
REREAD = 2.0
"""Bytes read over the size of the file."""
READ_BACK = 0.5
"""Part of what a process wrote to a file that it reads from it."""
OPENED, OPENED_OPERATIONS = 100, 2.0
"""Opens of one file, and reads and writes for each of them at most."""
TINY_BYTES, TINY_COUNT, TINY_OPENED = 1 << 20, 1000, 100
"""Mean size of files that are small; their number; and that number where most requests of the job move no bytes."""
ALONE_PART = 0.9
"""Part of the bytes of several ranks that one of them moves."""
BACKWARD_PART, BACKWARD_COUNT = 0.9, 100
"""Part and number of the reads that begin before the end of the one before: in random order about a half does."""


def reread(facts: Facts) -> Found | None:
    """Find files that one process reads several times over."""
    again = [
        file for file in facts.files
        if file.processes == 1 and file.size_bytes >= MOVED_MIN and file.read_bytes >= REREAD * file.size_bytes
    ]  # fmt: skip
    if not again:
        return None
    worst = max(again, key=lambda file: file.read_bytes - file.size_bytes)
    extra = sum(file.read_bytes - file.size_bytes for file in again)
    reads = facts.accesses.reads
    return Found(
        f"{worst.path} of {size_text(worst.size_bytes)} is read {worst.read_bytes / worst.size_bytes:.1f} times over.",
        worst.read_bytes / worst.size_bytes, "times its size",
        reads.seconds / facts.processes_at_once * min(extra / max(reads.bytes, 1), 1.0), "medium",
        "the bytes were counted; which of them came again is not known",
        "Keep what was read in memory, or copy the file to the node once.",
        f"cp {worst.path} $TMPDIR",
        tuple(file.path for file in again[:5]),
    )  # fmt: skip


def read_back(facts: Facts) -> Found | None:
    """Find files of which one process reads what it wrote."""
    back = [
        file for file in facts.files
        if file.processes == 1 and file.written_bytes >= MOVED_MIN
        and READ_BACK * file.written_bytes <= file.read_bytes < REREAD * max(file.size_bytes, 1)
    ]  # fmt: skip
    if not back:
        return None
    count = sum(min(file.read_bytes, file.written_bytes) for file in back)
    reads = facts.accesses.reads
    worst = max(back, key=lambda file: file.read_bytes)
    return Found(
        f"{size_text(count)} are read from files by the process that wrote them, most from {worst.path}.",
        count, "bytes", reads.seconds / facts.processes_at_once * min(count / max(reads.bytes, 1), 1.0), "medium",
        "the bytes were counted; some programs have no room to keep them",
        "Keep what is needed again in memory; to check what was written, keep a checksum of it.",
        "sha256sum FILE  # once, where the file is needed, and not in the job",
        tuple(file.path for file in back[:5]),
    )  # fmt: skip


def reopened(facts: Facts) -> Found | None:
    """Find files that are opened again and again for hardly an access each time."""
    again = [
        file for file in facts.files
        if file.opens >= OPENED * file.processes and file.operations <= OPENED_OPERATIONS * file.opens
    ]  # fmt: skip
    if not again:
        return None
    worst = max(again, key=lambda file: file.opens)
    opens = sum(file.opens for file in again)
    accesses = facts.accesses
    # An open, the close that follows, and a look at the file: of all metadata at most that of these files.
    part = min(3.0 * opens / accesses.metadata, 1.0) if accesses.metadata else 0.0
    return Found(
        f"{worst.path} is opened {worst.opens:,} times, for two accesses or fewer each time.",
        worst.opens, "opens", accesses.metadata_seconds / facts.processes_at_once * part or None, "medium",
        "the opens were counted; their time is a part of that of all metadata",
        "Open the file once, before the loop, and close it after it.",
        "exec 3>>FILE; for each in ...; do echo ... >&3; done  # Python: open the file outside of the loop",
        tuple(file.path for file in again[:5]),
    )  # fmt: skip


def many_small_files(facts: Facts) -> Found | None:
    """Find that a job has its bytes in many small files."""
    files = [file for file in facts.files if file.written_bytes or file.read_bytes]
    mean = sum(file.size_bytes for file in files) / len(files) if files else 0.0
    accesses = facts.accesses
    is_dear = accesses.metadata > accesses.reads.operations + accesses.writes.operations
    if len(files) < (TINY_OPENED if is_dear else TINY_COUNT) or mean >= TINY_BYTES:
        return None
    return Found(
        f"The job uses {len(files):,} files of {size_text(mean)} on average.",
        len(files), "files", accesses.metadata_seconds / facts.processes_at_once * 0.5 or None, "medium",
        "the files were counted; the time of their opens is that of all metadata",
        "Pack the files into a few: tar, HDF5, Zarr shards, or a format of records.",
        "tar -cf packed.tar FOLDER",
        tuple(file.path for file in files[:3]),
    )  # fmt: skip


def one_rank(facts: Facts) -> Found | None:
    """Find that one of several ranks moves nearly all bytes."""
    accesses, ranks = facts.accesses, facts.processes or 1
    moved = accesses.reads.bytes + accesses.writes.bytes
    part = facts.busiest_part
    if part is None or ranks < 2 or part < ALONE_PART or moved < MOVED_MIN * ranks:
        return None
    at_once = min(ranks, len([target for target in facts.targets if not target.is_metadata]) or ranks)
    files = sorted(facts.files, key=lambda file: -(file.read_bytes + file.written_bytes))
    return Found(
        f"One of {ranks} ranks moves {part:.0%} of the {size_text(moved)}, while the others wait or compute.",
        part, "of the bytes", (accesses.reads.seconds + accesses.writes.seconds) * (1.0 - 1.0 / at_once) * 0.5,
        "medium", "the bytes of each rank were counted; what more ranks bring depends on network and targets",
        "Let every rank, or one of each node, write its own part of the file.",
        "MPI_File_write_at_all(...)  # in place of MPI_Gather and a write of rank 0",
        tuple(file.path for file in files[:5]),
    )  # fmt: skip


def backward_reads(facts: Facts) -> Found | None:
    """Find that nearly all reads go back."""
    reads = facts.accesses.reads
    part = reads.astray / reads.placed if reads.placed else 0.0
    if part < BACKWARD_PART or reads.astray < BACKWARD_COUNT:
        return None
    files = sorted((file for file in facts.files if file.astray), key=lambda file: -file.astray)
    return Found(
        f"{reads.astray:,} of {reads.placed:,} reads ({part:.0%}) begin before the end of the one before: they go from "
        "back to front, or come to the same place again.",
        part, "of the reads", reads.seconds / facts.processes_at_once * part * 0.5, "high",
        "each access was compared with the one before",
        "Read a large block at a time and go back within it, so that reading ahead helps; or turn the loop round.",
        "block = file.read(4 << 20)  # and walk backwards in memory",
        tuple(file.path for file in files[:5]),
    )  # fmt: skip


def folders_of(facts: Facts) -> tuple[str, ...]:
    """The files that are opened most, and the folders with most files: where requests without bytes come from."""
    reopened_files = [file.path for file in sorted(facts.files, key=_opens) if file.opens >= OPENED]
    counts: dict[str, int] = {}
    for file in facts.files:
        folder = file.path.rpartition("/")[0] or "/"
        counts[folder] = counts.get(folder, 0) + 1
    folders = sorted((folder for folder in counts if counts[folder] > 1), key=lambda folder: -counts[folder])
    return (*reopened_files[:3], *folders[:3])


def _opens(file: File) -> int:
    return -file.opens
