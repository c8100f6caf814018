"""Resource models of sites, as files have them."""

from pathlib import Path


def node(
    name: str, folder: Path, *, kind: str = "ssd", capacity_bytes: int = 4 << 30, rate: float | None = None
) -> str:
    """A node with one device.

    Args:
        name: Name of the node.
        folder: Folder of the device.
        kind: Class of the device.
        capacity_bytes: Its capacity.
        rate: Bytes that it reads in a second, and bytes that it writes; None: those of its class.

    Returns:
        The node's part of a file `resources.toml`.
    """
    text = f'[[nodes]]\nname = "{name}"\n[[nodes.devices]]\npath = "{folder}"\nkind = "{kind}"\n'
    text += f"capacity_bytes = {capacity_bytes}\n"
    return text if rate is None else text + f"read_bytes_per_second = {rate}\nwrite_bytes_per_second = {rate}\n"
