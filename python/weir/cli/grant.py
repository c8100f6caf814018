"""`weir grant`: a credential for another user's job."""

import os
from pathlib import Path

import click

from weir.cli.common.errors import USAGE, CommandError, say, tell
from weir.cli.common.output import output_option, show
from weir.cli.common.parameters import PATH, Checked, Number, each
from weir.store import values
from weir.store.home import Home

_CLAIM = Checked("name", values.claim)


def _group_number(text: str) -> None:
    if text.strip() and not (text.strip().isdecimal() and int(text) <= values.ACCOUNT_MAX):
        raise ValueError(f"`{text}` is no number of a group; write a list such as 100,44")


@click.command()
@click.option(
    "--uid", "who", required=True, metavar="UID|NAME", type=Checked("user", values.user), help="User of the job."
)
@click.option("--gid", type=click.IntRange(0, values.ACCOUNT_MAX), help="Primary group.  [default: the user's]")
@click.option(
    "--groups",
    metavar="GID,...",
    type=Checked("groups", each(_group_number)),
    help="Supplementary groups.  [default: the user's]",
)
@click.option("--user", type=_CLAIM, help="User name that the job is accounted under.  [default: the user's]")
@click.option(
    "--group", type=_CLAIM, help=("Group name that the job is accounted under.  [default: the primary group's]")
)
@click.option("--job", type=_CLAIM, help="Name of the job, unique for its user.  [default: uid-UID]")
@click.option("--nodes", type=click.IntRange(1), default=1, help="Compute nodes of the job.")
@click.option("--priority", type=click.IntRange(1), default=1, help="Priority of the job.")
@click.option("--hours", type=Number(0, min_open=True), default=24.0, help="Hours for which the credential holds.")
@click.option("--to", "path", metavar="PATH", type=PATH, help="File of the credential; `-` is standard output.")
@output_option
@click.pass_obj
def grant(
    home: Home,
    who: str,
    gid: int | None,
    groups: str | None,
    user: str | None,
    group: str | None,
    job: str | None,
    nodes: int,
    priority: int,
    hours: float,
    path: Path | None,
    output: str,
) -> None:
    """Mint a credential for a job, as the holder of the site's key.

    The file can be read by its user alone. Its folder must belong to you, root or that user, and no other user may be
    able to change a folder on the way to it. The user runs programs with `weir run --credential FILE -- CMD`, or sets
    WEIR_CREDENTIAL to the file.
    """
    from weir.store import auditing, identity
    from weir.store.audits import ToldEntry
    from weir.store.cluster import announced
    from weir.store.files import make_folder
    from weir.ways import write_whole

    uid, gid, supplementary = _account(who, gid, groups)
    site_key = home.read_site_key()
    if site_key is None:
        raise CommandError(
            f"permission denied: only a user who can read {home.site_key} may grant",
            hint="ask the owner of the store, or set --home to it",
        )
    claims = identity.Identity(
        job=job or f"uid-{uid}",
        user=user or identity.user_name(uid),
        group=group or identity.group_name(gid),
        uid=uid,
        gid=gid,
        groups=supplementary,
        nodes=nodes,
        priority=priority,
    )
    text = claims.mint(site_key, hours * 3600)
    if home.cluster.is_file():
        entry = ToldEntry("grant", f"uid {uid}", after=f"job {claims.job}, as {claims.user}, for {hours:g} hours")
        auditing.tell(home, entry, tell)
    if path is not None and str(path) == "-":
        print(text, end="")
        return
    cluster = announced(home)
    if path is None:
        path = Home(cluster.parent).credentials / f"uid-{uid}.json"
        make_folder(path.parent, home.passage)
    path = path.absolute()
    try:
        write_whole(path, text, owner=(uid, gid) if uid != os.geteuid() else None, closed=True)
    except OSError as error:
        raise CommandError(
            f"cannot write {path} for uid {uid}: {error.strerror}",
            hint="write it to standard output with `--to -`, or choose another place with --to",
        ) from error
    document = {"credential": str(path), "cluster": str(cluster), **vars(claims)}
    rows = [("job", claims.job), ("user", claims.user), ("uid", uid), ("nodes", nodes), ("priority", priority)]
    show(output, document, ("GRANT", str(path)), rows)
    say(f"its user sets: WEIR_CLUSTER={cluster} WEIR_CREDENTIAL={path}")


def _account(who: str, gid: int | None, groups: str | None) -> tuple[int, int, list[int]]:
    """The uid, primary gid and supplementary groups of a user that is given by name or number."""
    import pwd

    from weir.store.identity import GROUPS_MAX

    try:
        account = pwd.getpwuid(int(who)) if who.isdecimal() else pwd.getpwnam(who)
    except (KeyError, OverflowError):
        account = None
    if account is None and gid is None:
        raise CommandError(f"uid {who} has no account", hint="say its group with --gid", exit_code=USAGE)
    uid = account.pw_uid if account else int(who)
    primary = gid if gid is not None else account.pw_gid if account else 0
    if groups is not None:
        listed = [int(number) for number in groups.split(",") if number.strip()]
    else:
        listed = os.getgrouplist(account.pw_name, primary) if account else [primary]
    return uid, primary, sorted(set(listed))[:GROUPS_MAX]
