"""Text that comes from elsewhere: names of files, of jobs, of programs, as a terminal may show them."""


def plain(text: str) -> str:
    r"""`text` with what is not printable escaped, as in `\x1b[2J`: a terminal takes no orders from a file's name.

    That covers control characters, ends of lines, marks that turn the direction of writing, and bytes that are no
    UTF-8.
    """
    return text if text.isprintable() else "".join(map(_shown, text))


def _shown(character: str) -> str:
    return character if character.isprintable() else _escaped(character)


def _escaped(character: str) -> str:
    number = ord(character)
    if 0xDC80 <= number <= 0xDCFF:
        # A byte of a name that is no UTF-8, as `os.fsdecode` keeps it.
        return f"\\x{number - 0xDC00:02x}"
    return character.encode("unicode_escape").decode()
