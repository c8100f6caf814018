"""Adds to the site the pages of the root folder, a page for each command of `weir`, and the files that pages link to.

MkDocs calls the functions whose names begin with `on_`. Pages keep their links as GitHub follows them, relative to the
page's file in the project; the site gets the links that lead to the same files there.
"""

import posixpath
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

_ROOT = Path(__file__).resolve().parents[2]
_ROOT_PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
"""Pages of the root folder, by their places in the site."""
_TABS = {
    "Guides": ["quick-start.md", "guides/"],
    "Commands": ["commands/"],
    "Reference": ["reference/"],
    "Results": ["measured.md", "papers.md"],
    "Design": ["architecture.md", "glossary.md", "design/"],
    "Extend": ["extend/"],
    "Development": ["contributing.md", "changelog.md", "development/"],
}
"""Tabs of the site, with their pages and folders in order."""
_SCRIPT = "javascripts/iframe-worker.js"
_HELP_COLUMNS = 100
_FENCE = re.compile(r"(^```.*?^```)", re.M | re.S)
_LINK = re.compile(r"(?<=\]\()[^)\s]+(?=\))")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the files outside of docs/, and list all pages in the navigation."""
    for name, place in _ROOT_PAGES.items():
        files.append(File.generated(config, place, abs_src_path=str(_ROOT / name)))
    for name, text in _command_pages():
        files.append(File.generated(config, f"commands/{name}.md", content=text))
    files.append(File.generated(config, _SCRIPT, abs_src_path=str(Path(__file__).parent / _SCRIPT)))
    pages = files.documentation_pages()
    for path in sorted({path for page in pages for path in _linked(page)}):
        if path not in _ROOT_PAGES and not path.startswith("docs/") and (_ROOT / path).is_file():
            files.append(File.generated(config, _place(path), abs_src_path=str(_ROOT / path)))
    config.nav = [{"Weir": "index.md"}, *({tab: _listed(places, pages)} for tab, places in _TABS.items())]
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead each link of a page to the place that its file has in the site."""
    here = posixpath.dirname(page.file.src_uri) or "."

    def led(link: re.Match[str]) -> str:
        path = _path(page.file, link[0])
        if path is None or not (_ROOT / path).is_file():
            return link[0]
        _, mark, fragment = link[0].partition("#")
        return posixpath.relpath(_place(path), here) + mark + fragment

    parts = _FENCE.split(markdown)
    return "".join(part if part.startswith("```") else _LINK.sub(led, part) for part in parts)


def _linked(page: File) -> Iterator[str]:
    """The files of the project that a page links to."""
    for link in _LINK.findall(_FENCE.sub("", page.content_string)):
        path = _path(page, link)
        if path is not None:
            yield path


def _path(page: File, link: str) -> str | None:
    """The path in the project that a link leads to; None if the link is an address or a heading of its own page."""
    address = urlsplit(link)
    if page.abs_src_path is None or address.scheme or not address.path:
        return None
    folder = Path(page.abs_src_path).parent.relative_to(_ROOT)
    return posixpath.normpath(posixpath.join(folder.as_posix(), address.path))


def _place(path: str) -> str:
    """The place in the site of a file of the project. Sources are texts, which a browser shows."""
    if path in _ROOT_PAGES:
        return _ROOT_PAGES[path]
    return path.removeprefix("docs/") if path.startswith("docs/") else f"sources/{path}.txt"


def _listed(places: list[str], pages: list[File]) -> list[str]:
    """The pages at some places, those of a folder by name. No page's name begins with the name of another."""
    names = sorted(page.src_uri for page in pages)
    return [name for place in places for name in names if name.startswith(place)]


def _command_pages() -> Iterator[tuple[str, str]]:
    """The commands of `weir` with their pages, from the sources and without the compiled module."""
    sys.path.insert(0, str(_ROOT / "python"))
    sys.modules.setdefault("weir._core", None)  # type: ignore[arg-type]
    from weir import cli

    program = click.Context(cli.weir, info_name="weir", max_content_width=_HELP_COLUMNS, terminal_width=_HELP_COLUMNS)
    for name in cli.weir.list_commands(program):
        yield name, "\n".join(_helps(cli.weir, name, program, level=1))


def _helps(group: click.Group, name: str, context: click.Context, *, level: int) -> Iterator[str]:
    """The help of a command and, below it, of its subcommands."""
    command = group.get_command(context, name)
    if command is None:
        raise LookupError(f"{context.command_path} lists {name} and does not have it")
    own = click.Context(command, info_name=name, parent=context)
    yield f"{'#' * level} {own.command_path}\n\n```text\n{command.get_help(own)}\n```\n"
    if isinstance(command, click.Group):
        for child in command.list_commands(own):
            yield from _helps(command, child, own, level=level + 1)
