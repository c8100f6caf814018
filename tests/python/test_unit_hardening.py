"""The units of systemd take away what their programs do not need; what stays has a reason."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

UNITS = Path(__file__).resolve().parents[2] / "packaging" / "systemd"

_ROOT = "its files are root's, and its users are told apart by their numbers"
_TALKS = "it talks to clients and peers, whose addresses the site chooses"
_ANYWHERE = "targets, mount points and the program may lie anywhere, and own mounts would hide a store from the host"
_HIDES = "it would give the unit mounts of its own, and hide the store from the host"
_NICE = "a thread lowers its own priority"
_PROC = "it reads figures of the kernel and of processes"
_STEPS = "steps run as users, with the rights of users"
EVERYWHERE = {
    "UserOrDynamicUser": _ROOT,
    "PrivateUsers": _ROOT,
    "PrivateNetwork": _TALKS,
    "IPAddressDeny": _TALKS,
    "RestrictAddressFamilies_AF_INET_INET6": _TALKS,
    "RestrictAddressFamilies_AF_UNIX": _TALKS,
    "RootDirectoryOrRootImage": _ANYWHERE,
    "PrivateMounts": _ANYWHERE,
    "ProcSubset": _PROC,
    "SystemCallFilter_resources": _NICE,
}
_OF_MOUNTS = (
    *("PrivateDevices", "PrivateTmp", "ProtectSystem", "ProtectHome", "ProtectProc", "ProtectHostname"),
    *("ProtectKernelLogs", "ProtectKernelModules", "ProtectKernelTunables", "ProtectControlGroups", "ProtectClock"),
)
_WITHOUT_MOUNTS = dict.fromkeys(_OF_MOUNTS, _HIDES)
STAYS: dict[str, dict[str, str]] = {
    "weir-server@.service": {
        "ProtectSystem": "targets may lie anywhere but in /usr, /boot and /etc",
        "ProtectHome": "the program may lie in a home, where it is read",
        "DeviceAllow": "the system's own devices, such as /dev/urandom",
    },
    "weir-recorder.service": {
        "ProtectSystem": "a history may lie anywhere but in /usr, /boot and /etc",
        "ProtectHome": "the program may lie in a home, where it is read",
        "DeviceAllow": "the system's own devices, such as /dev/urandom",
    },
    "weir-room.service": {
        "ProtectSystem": "a history may lie anywhere but in /usr, /boot and /etc",
        "ProtectHome": "the program may lie in a home, where it is read",
        "DeviceAllow": "the system's own devices, such as /dev/urandom",
        "MemoryDenyWriteExecute": "the script engine that puts the figures' scripts together makes code",
    },
    "weir-mount.service": {
        **_WITHOUT_MOUNTS,
        "DeviceAllow": "/dev/fuse",
        "CapabilityBoundingSet_CAP_SYS_ADMIN": "it mounts",
        "CapabilityBoundingSet_CAP_SYS_PTRACE": "it looks at the environment and the calls of its callers",
        "CapabilityBoundingSet_CAP_SET_UID_GID_PCAP": "it opens credentials with the rights of its callers",
        "CapabilityBoundingSet_CAP_DAC_FOWNER_IPC_OWNER": "it passes folders on the way to the mount point",
        "CapabilityBoundingSet_CAP_LINUX_IMMUTABLE": "nobody can write into the folder below a mount",
        "SystemCallFilter_mount": "it mounts",
        "SystemCallFilter_privileged": "it opens credentials with the rights of its callers",
    },
    "weir-planner.service": {
        **_WITHOUT_MOUNTS,
        "NoNewPrivileges": "users mount by the set-user-id helper of FUSE",
        "RestrictSUIDSGID": "steps copy files with their modes",
        "MemoryDenyWriteExecute": "the learned models' libraries may make code",
        "DeviceAllow": "steps mount by /dev/fuse and read devices of the site",
        "UMask": "steps have their own, and the socket is for all users",
        "RestrictAddressFamilies_AF_NETLINK": "ssh and the system's name services look at the addresses of the host",
        "SystemCallFilter_mount": "users mount by the set-user-id helper of FUSE",
        "SystemCallFilter_privileged": _STEPS,
        "SystemCallFilter_debug": "tools of a site that steps start",
        "CapabilityBoundingSet_CAP_SYS_ADMIN": "users mount by the set-user-id helper of FUSE",
        "CapabilityBoundingSet_CAP_KILL": "it ends processes of users' steps",
        "CapabilityBoundingSet_CAP_CHOWN_FSETID_SETFCAP": "it makes users' folders",
        "CapabilityBoundingSet_CAP_SET_UID_GID_PCAP": _STEPS,
        "CapabilityBoundingSet_CAP_DAC_FOWNER_IPC_OWNER": "it removes what lies in users' folders",
    },
}
"""What `systemd-analyze security` would take away as well, and why it stays."""
EXPOSURE_MAX = {
    "weir-server@.service": 2.5,
    "weir-recorder.service": 2.5,
    "weir-room.service": 2.6,
    "weir-mount.service": 5.2,
    "weir-planner.service": 6.0,
}
"""Of 10; a unit without any of these settings has 9.6."""


def settings(unit: str) -> list[tuple[str, str]]:
    lines = [line.strip() for line in (UNITS / unit).read_text().splitlines()]
    pairs = [line.split("=", 1) for line in lines if "=" in line and not line.startswith("#")]
    return [(name, value) for name, value in pairs]


def analysed(unit: str) -> list[dict[str, Any]]:
    program = ["systemd-analyze", "security", "--offline=true", "--json=short", "--no-pager", str(UNITS / unit)]
    answer = subprocess.run(program, capture_output=True, text=True, check=False)
    if not answer.stdout.startswith("["):
        pytest.skip(f"this systemd-analyze has no --offline: {answer.stderr.strip()[:200]}")
    found: list[dict[str, Any]] = json.loads(answer.stdout)
    return found


def test_each_unit_is_in_the_table() -> None:
    """Sockets run no program."""
    assert {path.name for path in UNITS.iterdir() if path.suffix != ".socket"} == set(STAYS) == set(EXPOSURE_MAX)


@pytest.mark.parametrize("unit", STAYS)
def test_a_setting_stands_once_and_a_unit_of_a_mount_has_no_mounts_of_its_own(unit: str) -> None:
    names = [name for name, _ in settings(unit) if name not in ("SystemCallFilter", "Environment", "After", "Wants")]
    assert len(names) == len(set(names))
    assert "CapabilityBoundingSet" in names and "SystemCallArchitectures" in names
    if unit not in ("weir-server@.service", "weir-recorder.service", "weir-room.service"):
        assert not set(_WITHOUT_MOUNTS) & set(names)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze")
@pytest.mark.parametrize("unit", STAYS)
def test_what_a_unit_may_do_has_a_reason(unit: str) -> None:
    unset = [each for each in analysed(unit) if not each["set"] and float(each["exposure"] or 0) > 0]
    assert {each["json_field"] for each in unset} <= set(EVERYWHERE) | set(STAYS[unit])


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze")
@pytest.mark.parametrize("unit", EXPOSURE_MAX)
def test_the_exposure_of_a_unit_is_bounded(unit: str) -> None:
    analysed(unit)
    answer = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE_MAX[unit] * 10:.0f}", UNITS / unit],
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout[-3000:]
