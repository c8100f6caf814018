"""Pages as their readers see them: elements, texts, and what they load."""

import html.parser
import re


class Elements(html.parser.HTMLParser):
    """The elements of a page, and what they load."""

    VOID = ("meta", "link", "br", "img", "path", "use")

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.identifiers: list[str] = []
        self.loaded: list[str] = []
        self.text: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.identifiers.append(value or "")
            if name in ("src", "href", "xlink:href", "data", "srcset", "action"):
                self.loaded.append(value or "")
            assert not name.startswith("on"), f"{tag} has a script in {name}"

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def elements(text: str) -> Elements:
    found = Elements()
    found.feed(text)
    found.close()
    assert not found.open
    return found


def check_needs_nothing(text: str) -> None:
    """A page loads nothing, runs no script, and has no two elements of one name."""
    found = elements(text)
    assert "script" not in found.names
    assert "link" not in found.names
    assert all(place.startswith(("#", "data:image/png;base64,")) for place in found.loaded), set(found.loaded)
    assert not re.search(r"@import|url\((?!#)", text)
    assert "default-src 'none'" in text
    assert len(set(found.identifiers)) == len(found.identifiers), "two elements share a name"
    links = {place[1:] for place in found.loaded if place.startswith("#")}
    assert links <= set(found.identifiers)
