"""A store in Redis, the paper's choice. Redis has to write every change to its log: `appendonly yes`."""

import logging
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import redis

from weir.planner.errors import PlannerError
from weir.planner.records import Fault, KnownJob, Record
from weir.planner.stores.contract import (
    CALL_SECONDS_MAX,
    KNOWN_BYTES_MAX,
    KNOWN_MAX,
    OUTCOMES_MAX,
    SCHEMA_VERSION,
    Pruning,
)
from weir.provisioning.outcomes.outcome import Outcome

CLAIM_SECONDS = 10.0
"""Time after which the claim of a planner that was killed is free."""
_PREFIX = "weir:planner"
_DEPLOYMENTS = f"{_PREFIX}:deployments"
_FAULTS = f"{_PREFIX}:faults"
_OWNER = f"{_PREFIX}:owner"
_SCHEMA = f"{_PREFIX}:schema"
_RENEW = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0
"""
"""The claim is renewed, or taken again where it ran out and nobody else took it."""
_GIVE_BACK = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


def _token() -> str:
    """A name of this process that no other has: its machine, its place there, its begin, and chance."""
    return f"{_machine()} {os.getpid()} {_begin(os.getpid())} {secrets.token_hex(16)}"


def _has_ended(token: str) -> bool:
    """Whether a process of this machine, as seen from here, has ended; false for those of others."""
    machine, _, rest = token.rpartition(" ")[0].partition(" ")
    number, _, begin = rest.partition(" ")
    return machine == _machine() and number.isdigit() and _begin(int(number)) != begin


def _machine() -> str:
    """This boot of this machine, and the space in which its processes have their numbers."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"


def _begin(number: int) -> str:
    """The time at which a process began, in ticks since the boot; empty where there is none."""
    try:
        # The name of the program, in parentheses, may have spaces (proc(5)).
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


class RedisStore:
    """A store in a database of Redis. See `Store`."""

    def __init__(self, url: str) -> None:
        """Connect to Redis.

        Args:
            url: The URL, `redis://HOST:PORT/NUMBER`, or `unix`-free forms that `redis.from_url` reads.

        Raises:
            PlannerError: Redis cannot be reached or used, or another planner uses the database.
        """
        parts = urlsplit(url)
        self._place = f"Redis {parts.hostname or 'localhost'}:{parts.port or 6379}{parts.path}"
        self._token = _token()
        self._pruning = Pruning()
        self._client: Any = redis.Redis.from_url(
            url, socket_timeout=CALL_SECONDS_MAX, socket_connect_timeout=CALL_SECONDS_MAX
        )
        with self._told():
            self._claim()
            self._client.setnx(_SCHEMA, SCHEMA_VERSION)
            found = self._client.get(_SCHEMA)
        if found != str(SCHEMA_VERSION).encode():
            self.close()
            raise PlannerError(
                f"the keys in {self._place} have version {found!r:.20}, and this planner knows {SCHEMA_VERSION}",
                hint="upgrade Weir on this machine, or name another database",
                code="failed",
            )
        self._warn_of_loss()

    def records(self) -> list[Record]:
        """See `Store`."""
        with self._told():
            return [msgspec.json.decode(each, type=Record) for each in self._client.hvals(_DEPLOYMENTS)]

    def save(self, records: Sequence[Record]) -> None:
        """See `Store`."""
        if records:
            rows = {f"{each.uid}/{each.name}": msgspec.json.encode(each) for each in records}
            with self._told():
                self._client.hset(_DEPLOYMENTS, mapping=rows)

    def forget(self, keys: Sequence[tuple[int, str]]) -> None:
        """See `Store`."""
        if keys:
            with self._told():
                self._client.hdel(_DEPLOYMENTS, *(f"{uid}/{name}" for uid, name in keys))

    def known(self, uid: int, key: str) -> KnownJob | None:
        """See `Store`."""
        with self._told():
            found = self._client.hget(f"{_PREFIX}:jobs:{uid}", key)
            return None if found is None else msgspec.json.decode(found, type=KnownJob)

    def remember(self, uid: int, key: str, job: KnownJob) -> None:
        """See `Store`."""
        jobs, used = f"{_PREFIX}:jobs:{uid}", f"{_PREFIX}:used:{uid}"
        with self._told():
            with self._client.pipeline(transaction=True) as steps:
                steps.hset(jobs, key, msgspec.json.encode(job))
                steps.zadd(used, {key: time.time()})
                steps.execute()
            if self._pruning.is_due(uid) and (oldest := self._beyond(jobs, used)):
                with self._client.pipeline(transaction=True) as steps:
                    steps.hdel(jobs, *oldest)
                    steps.zrem(used, *oldest)
                    steps.execute()

    def _beyond(self, jobs: str, used: str) -> list[bytes]:
        """The known jobs of a user beyond the bounds, those that were used longest ago."""
        latest: list[bytes] = self._client.zrevrange(used, 0, -1)
        with self._client.pipeline(transaction=False) as steps:
            for key in latest[:KNOWN_MAX]:
                steps.hstrlen(jobs, key)
            totals = accumulate(steps.execute())
        kept = sum(total <= KNOWN_BYTES_MAX for total in totals)
        return latest[kept:]

    def outcomes(self, uid: int) -> list[Outcome]:
        """See `Store`."""
        with self._told():
            found = self._client.lrange(f"{_PREFIX}:outcomes:{uid}", 0, -1)
            return [msgspec.json.decode(each, type=Outcome) for each in reversed(found)]

    def keep_outcome(self, uid: int, outcome: Outcome) -> None:
        """See `Store`."""
        key = f"{_PREFIX}:outcomes:{uid}"
        with self._told(), self._client.pipeline(transaction=True) as steps:
            steps.lpush(key, msgspec.json.encode(outcome))
            steps.ltrim(key, 0, OUTCOMES_MAX - 1)
            steps.execute()

    def faults(self) -> list[Fault]:
        """See `Store`."""
        with self._told():
            return [msgspec.json.decode(each, type=Fault) for each in self._client.hvals(_FAULTS)]

    def blame(self, fault: Fault) -> None:
        """See `Store`."""
        with self._told():
            self._client.hset(_FAULTS, f"{fault.uid}/{fault.node}", msgspec.json.encode(fault))

    def pardon(self, node: str) -> None:
        """See `Store`."""
        with self._told():
            fields = [each for each in self._client.hkeys(_FAULTS) if each.partition(b"/")[2] == node.encode()]
            if fields:
                self._client.hdel(_FAULTS, *fields)

    def keep_claim(self) -> None:
        """See `Store`."""
        with self._told():
            is_mine = self._client.eval(_RENEW, 1, _OWNER, self._token, int(CLAIM_SECONDS * 1000))
        if not is_mine:
            raise self._claimed()

    def close(self) -> None:
        """See `Store`."""
        try:
            self._client.eval(_GIVE_BACK, 1, _OWNER, self._token)
        except redis.RedisError:
            # The claim runs out by itself.
            pass
        finally:
            self._client.close()

    def _warn_of_loss(self) -> None:
        try:
            found = self._client.config_get("appendonly")
        except redis.RedisError:
            # A server whose settings are hidden may be as durable as any.
            return
        if found.get("appendonly") == "no":
            words = "%s does not log its changes, and loses deployments when it ends; set `appendonly yes`"
            logging.getLogger("weir.planner").warning(words, self._place)

    def _claim(self) -> None:
        """Take the claim. That of a planner that was killed is free at once on its machine, and runs out elsewhere."""
        end = time.monotonic() + 2 * CLAIM_SECONDS
        milliseconds = int(CLAIM_SECONDS * 1000)
        while not self._client.set(_OWNER, self._token, nx=True, px=milliseconds):
            owner = self._client.get(_OWNER)
            if owner is not None and _has_ended(owner.decode(errors="replace")):
                self._client.eval(_GIVE_BACK, 1, _OWNER, owner)
                continue
            if time.monotonic() > end:
                raise self._claimed()
            time.sleep(0.2)

    def _claimed(self) -> PlannerError:
        return PlannerError(
            f"another planner uses {self._place}", hint="end it, or name another `database`", code="failed"
        )

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Errors of Redis in one line."""
        try:
            yield
        except redis.RedisError as error:
            raise PlannerError(
                f"{self._place} failed: {' '.join(str(error).split())[:400]}", hint="is it running?", code="failed"
            ) from error
        except msgspec.MsgspecError as error:
            raise PlannerError(
                f"{self._place} has a document that cannot be read: {error}",
                hint="another program, or a later version of Weir, wrote it",
                code="failed",
            ) from error
