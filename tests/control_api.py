"""The reference page and the OpenAPI document of the control API, from the types of its client.

Run as a program it writes docs/reference/control-api.md and docs/reference/openapi.json.
"""

import ast
import dataclasses
import inspect
import json
import typing
from pathlib import Path
from typing import Any

from weir.store import answers
from weir.store.control import REQUESTS, Request
from weir.store.decoding import key_of, optional, types_of

REFERENCE = Path(__file__).resolve().parents[1] / "docs/reference"
PAGE, SCHEMA = REFERENCE / "control-api.md", REFERENCE / "openapi.json"

_INTRODUCTION = """\
# Control API

JSON over HTTP on the `control` address of each server. `python tests/control_api.py` prints this page and the same as an
[OpenAPI document](openapi.json) from the types of the client (`python/weir/store/answers.py`); the tests hold these to what servers answer.

An answer is a snapshot that was begun after its question, so it shows the effects of the caller's earlier requests. The server makes one snapshot for all waiting callers: of its status at
most every 50 ms, of the job table (`/v1/jobs`, `/metrics`) at most every 250 ms, and less often with many jobs (after two seconds at the latest). It serves 64 callers at once.
A further caller takes the place of the caller that has kept the server waiting longest, by an unfinished request or an answer that it does not read.

## Who is answered

The port takes requests in the clear, and sealed ones. In the clear nobody is known, so a server answers what *anybody* may see, and 401 else; an `Authorization` header opens nothing there. A sealed connection begins with a handshake (Noise, `NNpsk0`) whose key is
that of a credential. The handshake proves the client to the server, and the server (its site key and its number) to the client, before anything of a request is sent: a program that listens in the place of a server gets the claims of the credential and nothing else.
HTTP then goes on within the channel. The holder of any credential is a *user*, who sees the jobs of the credential's user alone; the holder of the site key is an *administrator*, by a credential with that role, which commands make for each connection. A credential outside of its
time is answered 401, and a user's request for what administrators alone may do 403. A server refuses with a status of 4xx, or with 503 where it is busy, and a [`Refusal`](#refusal). A `Host` header in the clear must name this server (421 else): its own address, `localhost` on loopback,
the name of its machine, that of its `control` address, or one of `control_hosts` in cluster.toml. [`/metrics`](metrics.md) is on the same address.

Commands of a user who can read the site key send every request sealed. From Python, `weir.store.control.Server` has a method for each request, and so has each item of `servers` of
[a store](../guides/python.md); `weir.store.connections.Connection` is an `http.client.HTTPConnection` over the channel.
"""

_JOBS = """
A job's shares over the whole store are the sum of `owed_seconds` over all servers, divided by the sum of `owing_seconds`, and the sum of `received_seconds`, divided by the sum of `contended_seconds`.
A job is active at the servers where it has requests, and its `contended_seconds` and `owing_seconds` grow on every server meanwhile. So the shares of jobs that are active at the same times
sum to 1, whichever devices each of them uses.

**Who waited for whom.** The server looks at each device in each accounting interval (1 ms and more) by itself. If a job had requests queued for a part
of the interval, the job waited for each other job by that part of the device time that the other job received. So one list never sums to more than the other
jobs received, and it grows only while the job has requests queued. In each interval the server tells apart the 32 jobs that received most, and
each list keeps 32 names and shows the eight greatest. The remaining time is in `waited_for_others_seconds`.
"""

_VARIABLES = {
    "server": "Number of the server.",
    "target": "Name of the target, `SERVER.INDEX`.",
    "part": "`PART/PARTS`: the inodes whose number leaves the remainder PART when it is divided by PARTS.",
    "after": "Number of a window or an entry; 0 shows all that the server keeps.",
    "inos": "Numbers of inodes with commas between them: at most 512 for places, 256 for directories.",
    "entries": "At most eight `PARENT.NAME.INO.INTENT` with commas between them: a directory, a name in hexadecimal, the inode that is expected"
    " there, and the intent that told its place last.",
}
"""The variable parts of paths."""

_PLAIN: dict[Any, tuple[str, str]] = {
    bool: ("truth value", "boolean"),
    int: ("integer", "integer"),
    float: ("number", "number"),
    str: ("text", "string"),
}
"""Types by their words on the page and in JSON Schema."""


LOOPBACK = "127.0.0.1:0"
_BODIES: dict[str, dict[str, Any]] = {
    "/v1/policy": {"policy": "job-fair", "scheduler": "virtual-time"},
    "/v1/lease": {"seconds": 0, "jobs": []},
    "/v1/allocator": {"allocator": "balanced"},
    "/v1/quotas": {"kind": "user", "id": 7, "limits": {"bytes_max": 1 << 30}},
    "/v1/targets/{target}/speed": {"read": "9MB/s", "write": "9MB/s", "fixed": "1ms"},
    # A server or target that is there already is no change.
    "/v1/servers/{server}": {"listen": LOOPBACK, "control": LOOPBACK, "target": [{"backend": "dir"}]},
    "/v1/servers/{server}/state": {"state": "open"},
    "/v1/targets/{target}": {"backend": "dir"},
    "/v1/targets/{target}/state": {"state": "open"},
    "/v1/mend": {"mend": "shelter"},
    "/v1/audit": {"kind": "deployment", "after": "one host"},
    "/v1/interference": {"window": 7, "window_seconds": 1.5, "missing": [], "jobs": []},
}


def examples() -> list[tuple[Request[Any], str, dict[str, Any] | None]]:
    """Each request with a path and a body that server 0 of a store takes as often as it is sent."""
    return [
        (
            request,
            request.path.format(target="0.0", server=0, part="0/1", inos="1,2", entries="1.61.5.0", after="0"),
            None if request.body is None else _BODIES[request.path],
        )
        for request in REQUESTS
    ]


def kinds() -> list[type]:
    """Every type of an answer or a body, in the order in which a reader meets them."""
    found: list[type] = []

    def visit(hint: Any) -> None:
        inner = optional(hint)
        if inner is not None:
            visit(inner)
        elif dataclasses.is_dataclass(hint) and isinstance(hint, type):
            if hint not in found:
                found.append(hint)
                for each in types_of(hint).values():
                    visit(each)
        else:
            for argument in typing.get_args(hint):
                visit(argument)

    for request in REQUESTS:
        visit(request.answer)
        visit(request.body)
    visit(answers.Refusal)
    return found


def words_of(kind: type) -> dict[str, str]:
    """What stands below each field of a dataclass in its source."""
    (tree,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(tree, ast.ClassDef)
    words = {}
    for field, below in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            assert isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant), (kind, field.target.id)
            words[field.target.id] = " ".join(str(below.value.value).split())
    return words


def page() -> str:
    """The reference page."""
    lines = [
        _INTRODUCTION,
        "## Requests\n",
        "| request | least caller | body | answer | meaning |",
        "|---|---|---|---|---|",
    ]
    for request in REQUESTS:
        body = "" if request.body is None else _link(request.body)
        lines.append(
            f"| `{_line(request)}` | {request.caller} | {body} | {_link(request.answer)} | {request.meaning} |"
        )
    for kind in kinds():
        lines += [f"\n## {kind.__name__}\n", f"{inspect.getdoc(kind)}\n", "| key | type | meaning |", "|---|---|---|"]
        words, hints = words_of(kind), types_of(kind)
        for field in dataclasses.fields(kind):
            absent = " or left out" if _is_optional(field) else ""
            spelled = _spelled(_present(hints[field.name]) if absent else hints[field.name])
            lines.append(f"| `{key_of(field)}` | {spelled}{absent} | {words[field.name]} |")
        if kind is answers.Job:
            lines.append(_JOBS.rstrip())
    return "\n".join(lines) + "\n"


def schema() -> dict[str, Any]:
    """The OpenAPI document."""
    refusal = {"description": "The server refuses.", "content": _content(answers.Refusal)}
    paths: dict[str, dict[str, Any]] = {}
    for request in REQUESTS:
        operation: dict[str, Any] = {
            "summary": request.meaning,
            "responses": {
                "200": {"description": inspect.getdoc(request.answer), "content": _content(request.answer)},
                "default": refusal,
            },
        }
        if request.body is not None:
            operation["requestBody"] = {"required": True, "content": _content(request.body)}
        if request.caller != "anybody":
            operation["description"] = f"Over the sealed channel alone, by the {request.caller}."
        for name, words in _VARIABLES.items():
            if f"{{{name}}}" in request.path:
                variable = {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
                operation["parameters"] = [{**variable, "description": words}]
        paths.setdefault(request.path, {})[request.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "Control API of weir-server", "version": "1"},
        "paths": paths,
        "components": {
            "schemas": {kind.__name__: _schema(kind) for kind in kinds()},
        },
    }


def schema_text() -> str:
    """The OpenAPI document as its file has it."""
    return json.dumps(schema(), indent=1) + "\n"


def _line(request: Request[Any]) -> str:
    path = request.path.replace("{target}", "SERVER.INDEX").replace("{server}", "NUMBER")
    return f"{request.method} {path}"


def _is_optional(field: "dataclasses.Field[Any]") -> bool:
    return field.default is not dataclasses.MISSING


def _present(hint: Any) -> Any:
    """The type of an optional field that is there."""
    return optional(hint) or hint


def _link(kind: type) -> str:
    return f"[{kind.__name__}](#{kind.__name__.lower()})"


def _spelled(hint: Any) -> str:
    if (inner := optional(hint)) is not None:
        return f"{_spelled(inner)} or null"
    if hint in _PLAIN:
        return _PLAIN[hint][0]
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _link(hint)
    item = typing.get_args(hint)
    return f"list of {_spelled(item[0])}" if typing.get_origin(hint) is tuple else f"object of {_spelled(item[1])}"


def _content(kind: type) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{kind.__name__}"}}}


def _schema(kind: type) -> dict[str, Any]:
    words, hints = words_of(kind), types_of(kind)
    fields = dataclasses.fields(kind)
    return {
        "type": "object",
        "description": inspect.getdoc(kind),
        "properties": {
            key_of(field): {
                **_type(_present(hints[field.name]) if _is_optional(field) else hints[field.name]),
                "description": words[field.name],
            }
            for field in fields
        },
        "required": [key_of(field) for field in fields if not _is_optional(field)],
    }


def _type(hint: Any) -> dict[str, Any]:
    if (inner := optional(hint)) is not None:
        return {"anyOf": [_type(inner), {"type": "null"}]}
    if hint in _PLAIN:
        return {"type": _PLAIN[hint][1]}
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return {"$ref": f"#/components/schemas/{hint.__name__}"}
    item = typing.get_args(hint)
    if typing.get_origin(hint) is tuple:
        return {"type": "array", "items": _type(item[0])}
    return {"type": "object", "additionalProperties": _type(item[1])}


if __name__ == "__main__":
    PAGE.write_text(page())
    SCHEMA.write_text(schema_text())
