"""The codes of findings: one row each, with its level, its meaning, the risk, and the command that mends it."""

from dataclasses import dataclass
from typing import Literal

Level = Literal["error", "warning", "notice"]
LEVELS: tuple[Level, ...] = ("error", "warning", "notice")
"""The levels, the gravest first. An error keeps somebody from files or changes; a warning will, or makes a job slow; a
notice is as somebody wanted it."""


@dataclass(frozen=True)
class Code:
    """One kind of finding.

    Attributes:
        name: The code.
        level: Level of its findings.
        meaning: The fact that is found.
        risk: What the fact puts at risk.
        mend: The command that mends it. `{start}` starts the server again, as it was started; `{logs}` shows its last
            words; `{server}`, `{target}`, `{place}` and `{host}` name the object.
        names_users: Whether its findings name users or their jobs, which are shown to those alone who may see them.
    """

    name: str
    level: Level
    meaning: str
    risk: str
    mend: str
    names_users: bool = False


_EIO = "files with names or bytes there wait, then answer EIO"

CODES: dict[str, Code] = {
    code.name: code
    for code in (
        Code("server-down", "error", "A server has ended, or nothing listens at its address.", _EIO, "{start}"),
        Code(
            "server-silent",
            "error",
            "A server does not answer in time: it hangs, or its host is cut off.",
            _EIO,
            "{logs}",
        ),
        Code(
            "server-unproven",
            "error",
            "A program listens at the address of a server and does not know the site's key.",
            _EIO,
            "ss -ltnp 'sport = :{port}'",
        ),
        Code(
            "identity-refused",
            "error",
            "A folder of a server is missing, older than the store, or that of another store or server.",
            "the server does not start, so that no byte is read as zero",
            "weir up --check",
        ),
        Code(
            "version-differs",
            "warning",
            "A server has another version than this program or than other servers.",
            "commands may not understand the server's answers",
            "weir upgrade",
        ),
        Code(
            "server-late",
            "warning",
            "Another server has not heard of a server that answers this command.",
            "shares, room and quotas are divided by old figures",
            "{logs}",
        ),
        Code(
            "out-of-step",
            "warning",
            "Servers have different policies, schedulers, allocators or numbers of servers.",
            "jobs get other shares on one server than on another",
            "weir policy set {policy}",
        ),
        Code(
            "clocks-apart",
            "warning",
            "The clock of a server differs from that of this host.",
            "credentials do not hold yet, or no more; stamps of files go back",
            "chronyc makestep",
        ),
        Code(
            "port-taken",
            "warning",
            "Another program had a port of a server, which listens elsewhere.",
            "clients that know only the old address do not find the server",
            "ss -ltnp 'sport = :{port}'",
        ),
        Code(
            "journal-stopped",
            "error",
            "The journal of a server takes no changes since a sync failed.",
            "changes answer EROFS until the device works; reads go on",
            "{logs}",
        ),
        Code(
            "journal-full",
            "error",
            "The file system of a server's journal has no room.",
            "names can be removed and files be cut; all other changes answer ENOSPC",
            "df {place}",
        ),
        Code(
            "journal-failures",
            "warning",
            "Syncs of a server's journal failed since the server started, and the journal works again.",
            "the device may fail for good",
            "{logs}",
        ),
        Code(
            "names-full",
            "error",
            "The names and attributes of a server take all the memory that they may have.",
            "names can be removed; new ones answer ENOSPC",
            "weir quota show",
        ),
        Code(
            "names-filling",
            "warning",
            "The names and attributes of a server take 90 % of the memory that they may have.",
            "new names will answer ENOSPC",
            "weir quota show",
        ),
        Code(
            "target-absent",
            "error",
            "The folder of a target is gone, or another one lies in its place.",
            "bytes on the target answer EIO until its folder is back",
            "mount the disk of {place}",
        ),
        Code(
            "target-failing",
            "error",
            "The device of a target failed in the last minutes.",
            "bytes on the target answer EIO",
            "weir target retire {target}",
        ),
        Code(
            "store-full",
            "error",
            "No target that takes files has room.",
            "new files and writes answer ENOSPC",
            "weir target add {server}",
        ),
        Code(
            "target-full",
            "warning",
            "A target has no room.",
            "writes behind the ends of its files go to other targets; those at fixed places answer ENOSPC",
            "weir rebalance",
        ),
        Code(
            "target-filling",
            "warning",
            "A target is 90 % full.",
            "writes will answer ENOSPC",
            "weir rebalance",
        ),
        Code(
            "target-slow",
            "warning",
            "A target is slower than the others of its class.",
            "files with stripes there are as slow as it; new files avoid it",
            "weir target retire {target}",
        ),
        Code(
            "quota-reached",
            "warning",
            "A user or a group has all that it may have.",
            "writes and new files of the owner answer EDQUOT",
            "weir quota set --{kind} {owner} --{what} {more}",
            names_users=True,
        ),
        Code(
            "quota-near",
            "warning",
            "A user or a group has 90 % of what it may have.",
            "writes and new files of the owner will answer EDQUOT",
            "weir quota set --{kind} {owner} --{what} {more}",
            names_users=True,
        ),
        Code(
            "mount-lost",
            "error",
            "The program of a mount ended.",
            "the mount point answers ENOTCONN",
            "{start}",
        ),
        Code(
            "host-silent",
            "error",
            "A host of the store does not answer by ssh in time.",
            "its mounts are not known",
            "ssh {host} true",
        ),
        Code(
            "job-blocked",
            "warning",
            "A job is connected and has no request at the servers that answer, while another does not answer.",
            "the job may wait for that server; in time its calls answer EIO",
            "{start}",
            names_users=True,
        ),
        Code(
            "credential-ending",
            "warning",
            "A credential in the store's home ends within three hours, or has ended.",
            "the job of its bearer is refused",
            "weir grant --uid {uid} --job {job}",
            names_users=True,
        ),
        Code(
            "planner-silent",
            "warning",
            "The planner's socket is there, and nobody answers on it.",
            "jobs that ask for storage wait",
            "systemctl restart weir-planner",
        ),
        Code(
            "deployment-failed",
            "warning",
            "A step of a planner's deployment failed.",
            "the storage of its job is not there, or its data are not staged out",
            "weir deployments show {name}",
            names_users=True,
        ),
        Code(
            "guard-died",
            "warning",
            "A guard ended without undoing what it did.",
            "the job that it protected is slowed again once the lease ends",
            "weir guard",
            names_users=True,
        ),
        Code(
            "lease-in-force",
            "notice",
            "A lease is in force in place of the decided sharing.",
            "nothing: it ends by itself unless the guard renews it",
            "weir guard log",
        ),
        Code(
            "server-retiring",
            "notice",
            "A server retires: its targets are being emptied.",
            "nothing: new files go to other servers",
            "weir server retire {server}",
        ),
        Code(
            "target-retiring",
            "notice",
            "A target retires: its files are to leave.",
            "nothing: new files go to other targets",
            "weir target retire {target}",
        ),
        Code(
            "keeps-nothing",
            "notice",
            "The store has targets in memory, and keeps nothing.",
            "all files are lost when a server ends",
            "weir down && weir up --backend dir",
        ),
    )
}
"""All codes by name, the order in which findings of one level are listed."""


@dataclass(frozen=True)
class Finding:
    """One finding about a store.

    Attributes:
        code: Name in `CODES`.
        level: Level of the code.
        object: What it is about, such as `target 0.1`.
        cause: What was found, in words.
        since: Unix time since when it is so; None where nobody knows.
        risk: What it puts at risk.
        mend: The command that mends it.
    """

    code: str
    level: Level
    object: str
    cause: str
    since: float | None
    risk: str
    mend: str


def found(code: str, subject: str, cause: str, *, since: float | None = None, **names: object) -> Finding:
    """Make a finding.

    Args:
        code: Name in `CODES`.
        subject: What it is about.
        cause: What was found, in words.
        since: Unix time since when it is so.
        names: Values for the command of the code.
    """
    row = CODES[code]
    return Finding(code, row.level, subject, cause, since, row.risk, row.mend.format(**names))


def in_order(findings: list[Finding]) -> list[Finding]:
    """Sort findings: errors first, then by code as in the table, then by object."""
    places = {name: place for place, name in enumerate(CODES)}
    return sorted(findings, key=lambda each: (LEVELS.index(each.level), places[each.code], each.object))
