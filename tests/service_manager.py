"""systemd as the first process of a host of `hosts`, with units of its own and nothing of this machine's.

A host with systemd has its own /etc, /var/lib and /var/log, which outlive its boots, and in each boot its own /dev,
/run and cgroups. /proc/sys and /sys cannot be written, as in any container.
"""

import shutil
import subprocess
import uuid
from pathlib import Path

_PROGRAM = Path("/lib/systemd/systemd")
_STOCK = Path("/lib/systemd/system")
_TARGETS = (
    *("basic", "final", "local-fs", "local-fs-pre", "multi-user", "network", "network-online", "network-pre"),
    *("nss-user-lookup", "paths", "poweroff", "reboot", "remote-fs", "remote-fs-pre", "shutdown", "slices"),
    *("sockets", "swap", "sysinit", "time-sync", "timers", "umount"),
)
_JOURNAL = ("systemd-journald.service", "systemd-journald.socket", "systemd-journald-dev-log.socket")
_WANTED = {
    "multi-user.target": ("remote-fs.target", "ssh.service"),
    "sockets.target": _JOURNAL[1:],
    "sysinit.target": _JOURNAL[:1],
}
_SSH = """
[Unit]
Description=ssh server
After=network.target

[Service]
ExecStart={program} -F -E -s -p 22 -r {folder}/host_key
KillMode=process
Restart=on-failure
"""
MACHINE = """
mount --bind "$2/etc" /etc
mount --bind "$4/hosts" /etc/hosts
mount --bind "$4/passwd" /etc/passwd
mount --bind "$2/local" /usr/local/sbin
mount --bind "$2/lib" /var/lib
mount --bind "$2/log" /var/log
mount --bind "$2/units" /lib/systemd/system
mount -t tmpfs tmpfs /lib/systemd/system-generators
mount -t cgroup2 cgroup2 "$2/cgroups"
mkdir "$2/cgroups/$6"
: >"$2/ready"
while :; do
    unshare --ipc --pid --fork --kill-child=KILL bash -c "$7" boot "$2" "$6"
    sleep 1
done
"""
"""Disks of a host, and its boots: `systemctl reboot` ends one, and the next one follows."""
BOOT = """
echo 0 >"$1/cgroups/$2/cgroup.procs"
exec unshare --mount --cgroup bash -c '
set -e
mount --make-rprivate /
umount "$1/cgroups"
mount -t proc proc /proc
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
mount -t sysfs -o ro sysfs /sys
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs -o mode=755 tmpfs "$1/devices"
for device in null zero full random urandom tty fuse; do
    : >"$1/devices/$device"
    mount --bind "/dev/$device" "$1/devices/$device"
done
ln -s /proc/self/fd "$1/devices/fd"
ln -s pts/ptmx "$1/devices/ptmx"
mkdir "$1/devices/pts" "$1/devices/shm"
mount -t devpts -o newinstance,ptmxmode=666 devpts "$1/devices/pts"
mount -t tmpfs -o mode=1777 tmpfs "$1/devices/shm"
mount --move "$1/devices" /dev
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system
' boot "$1"
"""
"""One boot of a host, from its first process on."""


def missing() -> str:
    """Why no host can have systemd here; empty where one can."""
    if not _PROGRAM.exists():
        return f"no {_PROGRAM}: the package systemd is not installed"
    tried = subprocess.run(
        ["unshare", "--mount", "sh", "-c", "mount --make-rprivate / && mount -t cgroup2 cgroup2 /mnt"],
        capture_output=True,
        text=True,
        check=False,
    )
    return f"no cgroups of version 2 here: {tried.stderr.strip()}" if tried.returncode else ""


def prepare(own: Path, folder: Path, name: str, ssh_server: str, weir: str) -> None:
    """Make the folders of a host that has systemd.

    Args:
        own: Folder of the host.
        folder: Folder of all hosts.
        name: Name of the host.
        ssh_server: Path of dropbear.
        weir: Path of the program `weir`, which is found on the path of services.
    """
    for part in ("cgroups", "devices", "lib", "local", "log", "units"):
        (own / part).mkdir()
    (own / "local/weir").symlink_to(weir)
    etc = own / "etc"
    subprocess.run(["cp", "--archive", "/etc", etc], check=True)
    shutil.rmtree(etc / "systemd/system", ignore_errors=True)
    (etc / "systemd/system").mkdir(parents=True)
    (etc / "hostname").write_text(f"{name}\n")
    (etc / "machine-id").unlink(missing_ok=True)
    (etc / "machine-id").write_text(f"{uuid.uuid4().hex}\n")
    units = own / "units"
    for unit in (*(f"{target}.target" for target in _TARGETS), *_JOURNAL):
        shutil.copy(_STOCK / unit, units)
    for kind in ("poweroff", "reboot"):
        shutil.copy(_STOCK / f"systemd-{kind}.service", units)
    (units / "default.target").symlink_to("multi-user.target")
    (units / "ssh.service").write_text(_SSH.format(program=ssh_server, folder=folder))
    for target, wanted in _WANTED.items():
        (units / f"{target}.wants").mkdir()
        for unit in wanted:
            (units / f"{target}.wants" / unit).symlink_to(f"../{unit}")


def first_process(machine: int) -> int | None:
    """Find systemd of the boot that a process `MACHINE` made last; None while there is none."""
    try:
        for starter in _children(machine):
            for child in _children(starter):
                if Path(f"/proc/{child}/comm").read_text() == "systemd\n":
                    return child
    except FileNotFoundError:
        return None
    return None


def remove_groups(own: Path, group: str) -> bool:
    """Remove the cgroups of a host; False while processes are in one."""
    removing = 'mount -t cgroup2 cgroup2 "$1" && { [ ! -e "$1/$2" ] || find "$1/$2" -depth -type d -exec rmdir {} +; }'
    command = ["unshare", "--mount", "sh", "-c", removing, "groups", str(own / "cgroups"), group]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _children(process: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
