"""`wds completion`: what a shell needs to complete commands, options and files after `wds`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

__all__ = ["completion"]

EPILOG = """\b
Examples:
  wds completion bash >> ~/.bashrc
  wds completion zsh >> ~/.zshrc
  wds completion fish > ~/.config/fish/completions/wds.fish

Exit status: 0 printed, 2 used wrongly.
"""


@click.command(epilog=EPILOG)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print what SHELL needs to complete what is typed after wds."""
    made = get_completion_class(shell)
    if made is None:  # click knows the three that the argument admits
        ctx.fail(f"{shell} is not known")
    click.echo(made(ctx.find_root().command, {}, "wds", "_WDS_COMPLETE").source())
