"""Foreign text (names of files, of jobs, of programs) in the form that a terminal may show."""


def plain(text: str) -> str:
    r"""Escape the unprintable characters of a text, as in `\x1b[2J`, so that a file's name gives a terminal no orders.

    Unprintable are control characters, ends of lines, marks that turn the direction of writing, and bytes that are no
    UTF-8.

    Returns:
        The text without unprintable characters.
    """
    return text if text.isprintable() else "".join(map(_shown, text))


def _shown(character: str) -> str:
    return character if character.isprintable() else _escaped(character)


def _escaped(character: str) -> str:
    number = ord(character)
    if 0xDC80 <= number <= 0xDCFF:
        # `os.fsdecode` keeps a byte that is no UTF-8 in this form.
        return f"\\x{number - 0xDC00:02x}"
    return character.encode("unicode_escape").decode()
