"""Small files that expand without end, for each decoder of a compressed or sparse form.

Run as a program, in a process of its own: `expanding.py DECODER SAMPLES BOMB`. It ends with 0 where the decoder came to
a result or to its own error within bounded memory.
"""

import gzip
import io
import json
import os
import struct
import sys
import tarfile
import threading
import traceback
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import foreign

_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class Bomb:
    """A way to harm a decoder's sound samples."""

    decoder: str
    plant: Callable[[Path], None]
    """Puts the bomb into a folder of samples."""


def _deflated(piece: bytes, total: int, wbits: int) -> bytes:
    """A deflate stream without an end, of a piece again and again: its flushed blocks can be repeated as they are."""
    content = piece * max(_BLOCK_BYTES // len(piece), 1)
    packer = zlib.compressobj(9, zlib.DEFLATED, wbits)
    first = packer.compress(content) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(content) + packer.flush(zlib.Z_FULL_FLUSH)
    return first + block * (total // len(content))


def _gzipped(head: bytes, piece: bytes, total: int) -> bytes:
    """A member of gzip with a head, then one that expands."""
    return gzip.compress(head) + _deflated(piece, total, 31)


def _darshan(module_at: int, total: int, record: bytes) -> Callable[[Path], None]:
    """Let an entry of a log's map of modules lead to a stream of records."""

    def plant(folder: Path) -> None:
        (log,) = folder.glob("sample-goodost*")
        content = bytearray(log.read_bytes())
        bomb = _deflated(record, total, 15)
        struct.pack_into("<QQ", content, module_at, len(content), len(bomb))
        for other in folder.iterdir():
            other.unlink()
        log.write_bytes(bytes(content) + bomb)

    return plant


_POSIX_AT, _LUSTRE_AT = 56, 136 + 16
"""Places of the modules' entries in the header of the sample."""
_POSIX_RECORD = struct.pack("<Qq", 5, 0) + b"\1" * 688


def _summaries(row: bytes) -> Callable[[Path], None]:
    def plant(folder: Path) -> None:
        lines = gzip.decompress((folder / "packed.csv.gz").read_bytes()).splitlines(keepends=True)
        (folder / "packed.csv.gz").write_bytes(_gzipped(lines[0], row or lines[1], 64 << 30))

    return plant


def _windows_json(folder: Path) -> None:
    path = folder / "enzo_2_time_data.json"
    path.write_bytes(_gzipped(b'{"All": {"x": [', b"1,", 64 << 30))


def _windows_rows(folder: Path) -> None:
    """A column chunk of equal values takes some bytes, whatever their number is."""
    import pyarrow
    from pyarrow import parquet

    table = parquet.read_table(folder / "windows.parquet").slice(0, 1)
    rows = 1 << 21
    columns = [pyarrow.repeat(column[0], rows) for column in table.columns]
    many = pyarrow.table(columns, schema=table.schema)
    parquet.write_table(many, folder / "windows.parquet", compression="zstd")


def _windows_names(folder: Path) -> None:
    """A long name stands once in the file, and in each of its rows."""
    import pyarrow
    from pyarrow import parquet

    table = parquet.read_table(folder / "windows.parquet").slice(0, 1)
    rows = 1 << 12
    columns = {
        name: pyarrow.repeat(column[0], rows) for name, column in zip(table.column_names, table.columns, strict=True)
    }
    name = pyarrow.DictionaryArray.from_arrays(
        pyarrow.repeat(pyarrow.scalar(0, pyarrow.int32()), rows), ["x" * (1 << 22)]
    )
    columns["server"] = name
    parquet.write_table(
        pyarrow.table(columns).replace_schema_metadata(table.schema.metadata), folder / "windows.parquet"
    )


def _model(content: Callable[[str], str]) -> Callable[[Path], None]:
    def plant(folder: Path) -> None:
        path = folder / "model.json"
        path.write_text(content(path.read_text()))

    return plant


def _with_words(text: str) -> str:
    """A model with many workloads."""
    model = json.loads(text)
    model["workloads"] = ["!"]
    return json.dumps(model).replace('"!"', '"",' * 30_000_000 + '""')


def _with_trees(text: str) -> str:
    """A model whose trees tell LightGBM of more leaves than there are."""
    return text.replace("num_leaves=", "num_leaves=99999999999999999").replace("num_class=", "num_class=4000000000")


def _npz(folder: Path) -> None:
    """An array of zeros, of which a header tells the size."""
    head = io.BytesIO()
    import numpy

    numpy.lib.format.write_array_header_1_0(head, {"descr": "<f8", "fortran_order": False, "shape": (1 << 40,)})
    with zipfile.ZipFile(folder / "arrays.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("wave.npy", head.getvalue() + bytes(64 << 20))


def _record(folder: Path) -> None:
    """A record of zeros that unpack to gigabytes, with a header that tells of terabytes."""
    (path,) = (folder / "fast").glob("dataset.end.*.npz")
    head = io.BytesIO()
    import numpy

    numpy.lib.format.write_array_header_1_0(head, {"descr": "<f8", "fortran_order": False, "shape": (1 << 40,)})
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("v.time.npy", "w", force_zip64=True) as member,
    ):
        member.write(head.getvalue())
        for _ in range(5 << 7):
            member.write(bytes(8 << 20))


def _sparse(folder: Path) -> None:
    """A backup whose key is a hole of a terabyte."""
    size = 1 << 40
    with tarfile.open(folder / "backup.tar") as archive:
        members = [(member, archive.extractfile(member).read()) for member in archive if member.isreg()]  # type: ignore[union-attr]
    manifest = json.loads(members[0][1])
    (log,) = [name for name in manifest["files"] if "/log-" in name]
    manifest["files"][log]["bytes"] = size
    with tarfile.open(folder / "backup.tar", "w", format=tarfile.PAX_FORMAT) as archive:
        for member, content in members:
            if member.name == members[0][0].name:
                content = json.dumps(manifest).encode()
            if member.name == log:
                member.pax_headers = {"GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.size": str(size),
                                      "GNU.sparse.numblocks": "1", "GNU.sparse.map": "0,0"}  # fmt: skip
                content = b""
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


BOMBS = {
    "records of a Darshan log": Bomb("darshan", _darshan(_POSIX_AT, 64 << 30, _POSIX_RECORD)),
    "one record of a Darshan log": Bomb("darshan", _darshan(_LUSTRE_AT, 64 << 30, b"\xff" * 64)),
    "rows of summaries": Bomb("summaries", _summaries(b"")),
    "a line of summaries": Bomb("summaries", _summaries(b"1,")),
    "windows in JSON": Bomb("windows", _windows_json),
    "rows of windows": Bomb("windows", _windows_rows),
    "names of windows": Bomb("windows", _windows_names),
    "a model of many words": Bomb("windows", _model(_with_words)),
    "a model nested deep": Bomb("windows", _model(lambda text: text[:-1] + ',"x":' + "[" * 40_000_000)),
    "a model of endless trees": Bomb("windows", _model(_with_trees)),
    "a packed array": Bomb("arrays", _npz),
    "a packed record": Bomb("named-stream", _record),
    "a sparse backup": Bomb("backup", _sparse),
}
"""Every bomb."""
PLAIN = {
    "stream": "the container's segments have bounds by their array, and its own fuzzer",
    "containers": "the same",
    "own-containers": "the marks of missing cells are unpacked to the size of the array at most",
    "traces": "records are not packed",
    "database": "pages of SQLite are not packed",
    "recorded": "text, and pages of SQLite",
    "simulated-run": "its tables are read by no command that takes foreign files",
    **dict.fromkeys(
        ("lustre-text", "lustre-document", "lustre-tree", "messages", "creations", "look-ups", "configuration",
         "credential", "addresses", "sweep", "scenario", "accounting", "job", "stress", "planner-requests", "resources",
         "deployment", "copy-record", "sslos", "slurm", "tables", "schema", "emitted", "classes",
         "step-journals", "placement-journals"),
        "text, which is as long as the file",
    ),
}  # fmt: skip
"""Decoders of files that cannot expand, with the reason."""


def main(name: str, samples: Path, bomb: str) -> int:
    """Read sound samples, then those with a bomb, in bounded memory.

    Args:
        name: The decoder.
        samples: The folder of the samples.
        bomb: One of `BOMBS`.

    Returns:
        The exit code.
    """
    threading.stack_size(1 << 20)
    decoder = foreign.DECODERS[name]
    decoder.act(samples)
    BOMBS[bomb].plant(samples)
    foreign._limit_memory()
    try:
        decoder.act(samples)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
    sys.stderr.flush()
    os._exit(code)
