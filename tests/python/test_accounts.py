"""The job tables of several servers as one, and the difference of two."""

from dataclasses import replace

import pytest
from answers import job
from weir.store.accounts import difference, merge, worst
from weir.store.answers import DeviceAccount, WaitedFor

ENTRY = job()


def waited(**seconds: float) -> tuple[WaitedFor, ...]:
    return tuple(WaitedFor(name, "v", 1, time) for name, time in seconds.items())


def test_jobs_of_several_servers_are_merged() -> None:
    idle = replace(
        ENTRY,
        contended_seconds=30.0,
        owing_seconds=30.0,
        owed_seconds=6.0,
        received_seconds=9.0,
        waited_for=waited(c=5.0),
        devices=(DeviceAccount("1.metadata", 0.0, 2.0, 1.0),),
        queue_wait_seconds_p90=0.4,
        active=False,
        queue_wait_seconds_p99=0.5,
    )
    silent = replace(ENTRY, id="3", device_seconds=0.0, contended_seconds=0.0, owing_seconds=0.0)
    other = replace(ENTRY, id="2", device_seconds=9.0)
    first, second, third = merge([[ENTRY, other], [idle, silent]])
    assert first.id == "2"
    assert third.share_owed is None
    assert second.operations == 20
    assert second.connections == 6
    assert second.charged_seconds == pytest.approx(2.2)
    assert second.active
    assert (second.share_owed, second.share_received) == (14 / 40, 16 / 40)
    assert (second.queue_wait_seconds_p90, second.queue_wait_seconds_p99) == (0.4, 0.5)
    assert second.waited_for == waited(c=6.0, b=3.0)
    assert second.waited_for_others_seconds == 1.0
    assert worst(second) == ("c", 6.0)
    assert [device.device for device in second.devices] == ["0.0", "1.metadata"]
    assert ENTRY.waited_for == waited(b=3.0, c=1.0), "what was given is left as it is"


def test_time_under_fifo_is_owed_to_nobody() -> None:
    """A job that was active under `fifo` for three quarters of its time, and owed half of the rest."""
    entry = replace(ENTRY, contended_seconds=40.0, owing_seconds=10.0, owed_seconds=5.0, received_seconds=20.0)
    mixed = merge([[entry]])[0]
    assert (mixed.share_owed, mixed.share_received) == (0.5, 0.5)
    alone = merge([[replace(ENTRY, owing_seconds=0.0, owed_seconds=0.0)]])[0]
    assert (alone.share_owed, alone.share_received) == (None, 0.7)


def test_an_interval_is_the_difference_of_what_was_counted() -> None:
    later = replace(
        ENTRY,
        operations=25,
        connections=2,
        contended_seconds=11.0,
        owing_seconds=11.0,
        owed_seconds=8.25,
        received_seconds=7.5,
        waited_for=waited(b=3.4, d=2.0),
        devices=(DeviceAccount("0.0", 0.25, 2.0, 1.5),),
    )
    others = [replace(ENTRY, id=name, job=name, user="v", device_seconds=5.0) for name in "bd"]
    others_later = [replace(other, device_seconds=5.0 + more) for other, more in zip(others, (0.3, 0.1), strict=True)]
    since = difference([later, *others_later], [ENTRY, *others])[0]
    assert (since.operations, since.connections) == (15, 2)
    assert (since.share_owed, since.share_received) == (0.25, 0.5)
    # No job was waited for longer than it received; d was among the others before, for a time that nobody told.
    assert [entry.job for entry in since.waited_for] == ["b", "d"]
    assert [entry.seconds for entry in since.waited_for] == pytest.approx([0.3, 0.1])
    assert since.devices == (DeviceAccount("0.0", 0.25, 2.0, 0.5),)


def test_a_job_that_is_new_counts_from_nothing_and_one_that_did_nothing_has_no_share() -> None:
    assert difference([ENTRY], [])[0].operations == 10
    idle = difference([ENTRY], [ENTRY])[0]
    assert (idle.operations, idle.share_owed, idle.waited_for, worst(idle)) == (0, None, (), None)
