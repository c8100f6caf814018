"""The size of a source."""

import stat

from weir.staging.places import below, names_in
from weir.staging.record import is_of_a_copy


def survey(root: int) -> tuple[int, int]:
    """Count the files of a tree.

    Args:
        root: Descriptor of the tree's root.

    Returns:
        Number of the files that a copy does not leave out, and bytes of the plain ones. Folders that cannot be read are
        left out.

    Raises:
        OSError: The root cannot be read.
    """
    files = size = 0
    ahead: list[tuple[bytes, ...]] = [()]
    while ahead:
        parts = ahead.pop()
        try:
            with below(root, parts) as folder:
                for name, status in names_in(folder):
                    kind = stat.S_IFMT(status.st_mode)
                    if kind == stat.S_IFDIR:
                        ahead.append((*parts, name))
                    elif kind in (stat.S_IFREG, stat.S_IFLNK, stat.S_IFIFO) and not is_of_a_copy(name):
                        files += 1
                        size += status.st_size if kind == stat.S_IFREG else 0
        except OSError:
            if not parts:
                raise
    return files, size
