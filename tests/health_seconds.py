"""Prints the median time until `weir health` answers for a store of three hosts, and with one of them cut off."""

import statistics
import time

import hosts
from hosts import Hosts

SERVERS = ("node1", "node2", "node3")
_ROUNDS = 5


def seconds(network: Hosts) -> float:
    """The median time of a call."""
    taken = []
    for _ in range(_ROUNDS):
        begun = time.monotonic()
        network["desk"].weir("health", "--output", "json", code=None)
        taken.append(time.monotonic() - begun)
    return statistics.median(taken)


def main() -> None:
    """Measure both; nothing is printed where this machine can make no hosts."""
    if hosts.missing():
        return
    with hosts.hosts(["desk", *SERVERS]) as network:
        network.deploy_three(SERVERS)
        whole = seconds(network)
        network["node3"].cut()
        try:
            print(whole, seconds(network))
        finally:
            network["node3"].join()


if __name__ == "__main__":
    main()
