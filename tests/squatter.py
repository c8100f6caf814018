"""A user who binds the ports of a server that is down, and says nothing, says anything, or passes all on to the server.

The program is run by the system's Python as that user: `squatter.py MODE CLUSTER HEARD NUMBER ADDRESS...`. It writes a
line once it listens, and all that it hears into files of the folder HEARD.
"""

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

OTHER = 65534
MODES = ("silent", "loud", "relay")

_PROGRAM = """
import json, os, select, socket, sys, threading

mode, cluster, heard, number, *addresses = sys.argv[1:]

def server(kind):
    with open(cluster) as file:
        (entry,) = [entry for entry in json.load(file)["servers"] if entry["server"] == int(number)]
    host, _, port = entry[kind].rpartition(":")
    return host, int(port)

def copy(source, target, file):
    try:
        while piece := source.recv(1 << 16):
            if file is not None:
                file.write(piece)
                file.flush()
            if target is not None:
                target.sendall(piece)
        if target is not None:
            target.shutdown(socket.SHUT_WR)
    except OSError:
        pass

def serve(connection, kind, name):
    with open(os.path.join(heard, name), "wb") as file:
        if mode != "relay":
            if mode == "loud":
                connection.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\n{}" + os.urandom(200))
            return copy(connection, None, file)
        try:
            beyond = socket.create_connection(server(kind))
        except OSError:
            return connection.close()
        threading.Thread(target=copy, args=(beyond, connection, file), daemon=True).start()
        copy(connection, beyond, file)

def listen(address, kind):
    host, _, port = address.rpartition(":")
    listener = socket.create_server((host, int(port)), backlog=64)
    def take():
        count = 0
        while True:
            connection, _ = listener.accept()
            count += 1
            name = f"{kind}-{count}"
            threading.Thread(target=serve, args=(connection, kind, name), daemon=True).start()
    threading.Thread(target=take, daemon=True).start()

for kind, address in zip(("tcp", "control"), addresses):
    listen(address, kind)
print("listens", flush=True)
sys.stdin.read()
"""


@dataclass
class Squatter:
    """The program, while it runs."""

    folder: Path

    def heard(self) -> list[bytes]:
        """What came over each connection, in both directions."""
        return [path.read_bytes() for path in sorted(self.folder.iterdir())]


def addresses_of(cluster: Path, number: int) -> tuple[str, str]:
    """The data and the control address of a server in a cluster.json."""
    servers = json.loads(cluster.read_text())["servers"]
    (entry,) = [entry for entry in servers if entry["server"] == number]
    return entry["tcp"], entry["control"]


@contextlib.contextmanager
def squatting(mode: str, cluster: Path, number: int, addresses: Sequence[str], folder: Path) -> Iterator[Squatter]:
    """Have another user take the addresses of server `number`, which is down, and keep what is heard in `folder`."""
    folder.mkdir()
    os.chown(folder, OTHER, OTHER)
    words = [mode, str(cluster), str(folder), str(number), *addresses]
    with subprocess.Popen(
        ["/usr/bin/python3", "-c", _PROGRAM, *words],
        user=OTHER,
        group=OTHER,
        extra_groups=[],
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as squatter:
        try:
            assert squatter.stdout is not None
            assert squatter.stdout.readline() == "listens\n", f"{addresses} cannot be taken"
            yield Squatter(folder)
        finally:
            squatter.kill()
