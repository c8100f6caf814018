"""tar and rsync bring a tree onto the store and back with everything that belongs to it."""

import subprocess
from pathlib import Path

import pytest
from waits import PATIENCE_SECONDS
from ways import Way

TREE = """
    mkdir -p plain/deep private && seq 1 100000 > plain/numbers && printf x > plain/deep/one && : > plain/empty
    for i in $(seq 100); do echo "file $i" > plain/deep/file-$i; done
    chmod 2775 plain/deep && chmod 700 private && chmod 4711 plain/deep/one && chmod 0 plain/empty
    ln plain/numbers private/hard && ln -s ../plain/numbers private/soft && ln -s /nowhere private/dangling
    chown -h 1234:4321 private/soft && chown 1234:4321 plain/deep/file-7
    truncate -s 3000000 private/sparse && printf end >> private/sparse
    setfattr -n user.colour -v blue plain/numbers && setfattr -n user.empty plain/deep
    touch -d '1999-12-31 23:59:59.123456789 UTC' plain/numbers private/sparse && touch -hd @7.5 private/soft
    touch -d '2020-02-02 UTC' plain/deep private plain
"""
SPECIAL = "mkfifo private/pipe && mknod private/null c 1 3"
SEEN = """find . -mindepth 1 -printf '%P %y %m %n %U %G %T@ %l ' \\( -type f -printf '%s' -o -true \\) -printf '\\n' | sort
find . -type f ! -perm 0 -exec cksum {} + | sort -k 3; find . ! -type l | sort | xargs getfattr -h -d -m ^user"""
"""What belongs to a tree: types, modes, links, owners, times, sizes, bytes, extended attributes."""

RSYNC = "rsync -aHX --numeric-ids --modify-window=-1"
"""With times compared to the nanosecond, not to the second."""

pytestmark = pytest.mark.usefixtures("root_only")


@pytest.fixture
def tree(way: Way, tmp_path: Path) -> Path:
    """A tree on the machine's own disk with one of everything that this way can carry."""
    tree = tmp_path / "tree"
    tree.mkdir()
    local(tree, TREE)
    if way.name != "prefix":
        local(tree, SPECIAL)
    return tree


def local(folder: Path, script: str) -> str:
    answer = subprocess.run(
        ["bash", "-euc", script], cwd=folder, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def test_tar_carries_all_metadata(way: Way, tree: Path, tmp_path: Path) -> None:
    flags = "--xattrs --numeric-owner --format=posix --sparse"
    local(tree, f"tar {flags} -cf ../in.tar .")
    way.shell(
        f"mkdir tree && tar {flags} -xpf $1/in.tar -C tree && tar {flags} -df $1/in.tar -C tree", tmp_path,
        served=["open", "write", "make", "link", "change", "xattr"],
    )  # fmt: skip
    assert way.shell(f"cd tree\n{SEEN}") == local(tree, SEEN)
    way.shell(f"cd tree && tar {flags} -czf ../out.tar.gz . && cp ../out.tar.gz $1", tmp_path, served=["read", "list"])
    local(tmp_path, f"mkdir back && tar {flags} -xpzf out.tar.gz -C back")
    assert local(tmp_path / "back", SEEN) == local(tree, SEEN)


def test_rsync_brings_everything_once(way: Way, tree: Path, tmp_path: Path) -> None:
    way.shell(f"{RSYNC} $1/ copy/", tree, served=["open", "write", "rename", "xattr"])
    assert way.shell(f"cd copy\n{SEEN}") == local(tree, SEEN)
    again = way.shell(f"{RSYNC} --checksum --itemize-changes $1/ copy/", tree, served=["read"])
    assert again == "", "nothing had changed"

    local(tree, "echo more >> plain/numbers && rm plain/deep/file-3 && mv plain/deep/file-4 plain/deep/moved")
    changed = way.shell(f"{RSYNC} --delete --inplace --no-whole-file -i $1/ copy/", tree)
    assert "*deleting" in changed
    assert way.shell(f"cd copy\n{SEEN}") == local(tree, SEEN)
    way.shell(f"{RSYNC} copy/ $1/", tmp_path / "back")
    assert local(tmp_path / "back", SEEN) == local(tree, SEEN)
