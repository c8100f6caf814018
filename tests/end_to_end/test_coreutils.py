"""The programs that everybody uses do on the store what they do on the machine's own disk."""

import subprocess
from pathlib import Path

import pytest
from waits import PATIENCE_SECONDS
from ways import MOUNTED, Way

LISTING = (
    "find . -mindepth 1 -printf '%P %y %m %n %U %G %l ' \\( -type f -printf '%s %T@' -o -true \\) -printf '\\n' | sort"
)
"""What one can see of a tree, but for inode numbers, the sizes of directories and the times of what was just made."""

SCRIPTS = {
    "copy": """
        mkdir -p from/deep/er && seq 1 50000 > from/numbers && echo words > from/deep/file
        ln -s ../numbers from/deep/link && ln from/numbers from/hard && chmod 640 from/deep/file && chmod 2750 from/deep
        touch -d '2001-02-03 04:05:06.789012345 UTC' from/deep/file from/numbers && touch -hd @1000000000.5 from/deep/link
        chown 1234:4321 from/deep/file
        cp -a from to && cmp from/numbers to/numbers
        cp --sparse=always from/numbers sparse && cmp from/numbers sparse && touch -d @1000000000 sparse
        cat from/numbers from/deep/file > both && touch -d @1000000000 both && sha256sum both sparse to/deep/link
    """,
    "move": """
        mkdir a b && echo one > a/one && echo two > a/two && touch -d @1000000000 a/*
        mv a/one b/ && mv -T a b/a && mv b/a/two b/renamed && test ! -e a && mv -n b/one b/renamed && cat b/renamed
        ln b/renamed b/again && ln -s nowhere b/dangling && readlink b/dangling && test b/renamed -ef b/again
        refused rmdir b; refused mkdir b; refused cat missing; refused cat b/dangling; refused mv b b/a; refused ln b c
        mv b c && test "$(cat c/again)" = two
    """,
    "truncate": """
        truncate -s 5000000 hole && stat -c %s hole && cksum hole && truncate -s 7 hole && truncate -s +3 hole
        echo words > file && truncate -s 3 file && truncate -s 6 file && od -c file && : > empty
        truncate -s 1M grown && printf tail >> grown && tail -c 5 grown | od -c && touch -d @1000000000 *
    """,
    "dd": """
        seq 1 400000 > in && dd if=in of=out bs=64k status=none && cmp in out
        dd if=in of=part bs=4k skip=3 count=2 status=none && stat -c %s part
        dd if=in of=out bs=1 seek=1000000 count=20 conv=notrunc status=none && cksum out
        dd if=in of=synced bs=1M conv=fsync status=none && dd if=in of=direct bs=64k oflag=append conv=notrunc status=none
        dd if=/dev/zero of=seeked bs=1 count=1 seek=3000000 status=none && stat -c %s seeked && cmp in direct
        dd if=in bs=100k count=1 status=none | cksum && touch -d @1000000000 *
    """,
    "text": """
        seq 1 60000 | awk '{print ($1 * 7919) % 60000}' > in && sort -n in > sorted && sort -n --parallel=2 -S 100k -T . -u in | tail -1
        sort -n -o in in && cmp in sorted && sha256sum in > sums && sha256sum -c sums
        split -b 40000 in part- && ls part-* | wc -l && cat part-* | cmp - in && head -3 in && tail -n 2 in
        grep -c 7 in && sed -i s/7/seven/ in && grep -c seven in && wc -l in && tac in | head -1 && rm part-*
        comm -12 <(sort sorted) <(sort in) | wc -l && paste sorted in | tail -1 && touch -d @1000000000 *
    """,
    "install": """
        echo '#!/bin/sh' > program && install -m 755 program installed && install -d -m 700 made/these/too
        install -m 600 -o 1 -g 2 program made/these/too/ && ls made/these/too && mkfifo pipe && touch -d @1000000000 program installed made/these/too/program
        cp -p installed copy && ln -sfn made link && ln -sfn copy link && shred -n 1 -u copy && rm -f missing
    """,
    "walk": """
        for i in $(seq 40); do mkdir -p d$i/sub && echo $i > d$i/sub/file; done
        find . -type f -name file | wc -l && find . -depth -type d | wc -l && ls -lR | grep -c ' file$' && du -a . | wc -l
        find . -type f -size -10c -exec cat {} + | sort -n | tail -1 && grep -r 17 . | sort && chmod -R g+w,o= d1 d2
        find d3 -delete && rm -r d4 && rm -rf d[5-9] && ls | wc -l && touch -d @1000000000 */sub/file && ls -U | sort | head -3
    """,
}

SERVED = {
    "copy": ["open", "stat", "change", "make", "link"],
    "move": ["rename", "link", "readlink"],
    "truncate": ["open", "stat", "truncate"],
    "dd": ["read", "write"],
    "text": ["read", "write"],
    "install": ["make", "change", "unlink"],
    "walk": ["list", "unlink", "make"],
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_coreutils_do_what_they_do_elsewhere(way: Way, name: str, tmp_path: Path) -> None:
    script = f"umask 022\n{SCRIPTS[name]}\n{LISTING}"
    assert way.shell(script, served=SERVED[name]) == on_the_disk(script, tmp_path)


def on_the_disk(script: str, folder: Path) -> str:
    refused = 'refused() { if "$@" 2>/dev/null; then echo "not refused: $*" >&2; exit 1; fi; }'
    command = ["bash", "-c", f"set -euo pipefail; {refused}\ncd {folder}\n{script}"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


@pytest.mark.parametrize("way", MOUNTED, indirect=True)
def test_programs_that_reopen_their_input(way: Way) -> None:
    """uniq calls freopen, which a stream of libc cannot do on a placeholder."""
    assert way.shell("printf 'a\\na\\nb\\n' > file && uniq -c file | tr -d ' \\n'") == "2a1b"


def test_disk_usage_counts_what_is_stored(way: Way) -> None:
    way.shell("""
        head -c 3000000 /dev/urandom > full && truncate -s 1G hole && sync full
        test $(du -B1 full | cut -f1) -ge 3000000 && test $(du -B1 hole | cut -f1) -lt 1000000
        test $(du -b --apparent-size hole | cut -f1) = 1073741824
        df . > /dev/null && stat -f -c '%S %l' . | grep -q '^4096 255$'
    """)
