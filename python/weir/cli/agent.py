"""`weir agent`: one operation on this host, for the host that a store is deployed from."""

import json
import sys

import click

from weir.store.home import Home

_REQUEST_BYTES_MAX = 64 << 20
"""Longest request that is read: the addresses of the most servers take less."""


@click.command()
@click.argument("operation")
@click.pass_obj
def agent(home: Home, operation: str) -> None:
    """Do one operation of a store on several hosts. `weir deploy` calls it on each host.

    The request is a JSON document on standard input, and the last line of the output is the answer. The operation
    `keep` has no request: it goes on until the store on this host ends.
    """
    from weir.deployment.agent import NAMES, do, keep
    from weir.deployment.fanout import answer_line
    from weir.deployment.steps import KEEP

    if operation == KEEP:
        keep(home)
        return
    if operation not in NAMES:
        raise click.UsageError(f"there is no operation {operation}; they are {', '.join(NAMES)}")
    try:
        document = json.loads(sys.stdin.buffer.read(_REQUEST_BYTES_MAX))
    except ValueError as error:
        raise click.UsageError(f"the request is no JSON document: {error}") from error
    print(answer_line(do(operation, document)))
