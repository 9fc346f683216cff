"""The page of the commands: what each says with --help, taken from the commands themselves."""

from __future__ import annotations

from collections.abc import Iterator

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from wds_tools.cli import COMMANDS, root

HEAD = """# Commands

What each command says with `--help`. Facts come as JSON with `--json`; the answer goes to stdout, progress and
complaints to stderr. Exit status: 0 done, 1 found something wrong, 2 used wrongly.

`URLS` are a pattern with braces (`train-{000000..000007}.tar`), a glob, a folder, a `dataset.json`, an `http(s)://` or
store's url of these, or several of them. Sizes are written `500MB` or `4MiB`, times `50ms` or `10s`.
"""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page."""
    files.append(File.generated(config, "commands.md", content="\n\n".join([HEAD, *_sections()])))
    return files


def _sections() -> Iterator[str]:
    context = click.Context(root, info_name="wds", max_content_width=100)
    for name, entry in COMMANDS.items():
        command = None if entry.hidden else root.get_command(context, name)
        if command is not None:
            yield f"## wds {name}\n\n{_help(command, name, context)}"


def _help(command: click.Command, name: str, parent: click.Context) -> str:
    own = click.Context(command, info_name=name, parent=parent, max_content_width=100)
    text = f"```text\n{command.get_help(own).rstrip()}\n```\n"
    if isinstance(command, click.Group):
        for child in command.list_commands(own):
            text += f"\n### wds {name} {child}\n\n{_help(command.commands[child], child, own)}"
    return text
