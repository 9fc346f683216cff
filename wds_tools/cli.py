"""The `wds` command: a table of commands, each loaded when it is called.

The commands live in three packages that do not import each other, and some need torch. So the root knows them by
import string and one line of help, which keeps `wds --help` and a mistyped command at a tenth of a second, and lets a
test hold the table against the commands themselves.

What all commands share is decided here, once:

- stdout is the answer, stderr the progress and the complaints;
- exit status 0 done, 1 found something wrong, 2 used wrongly; as for other Unix programs 130 is stopped by Ctrl-C, 143
  ended by SIGTERM, and 141 that whoever read the output went away (`wds ls ... | head`);
- an error of ours, or of the file system, is one line that begins with `wds:`; a traceback is a bug of ours;
- a value that an option does not take is answered with the nearest that it takes, and an option that a command does not
  have with the one that is meant, if one is;
- colours are for terminals, and not for those who set NO_COLOR (https://no-color.org).
"""

from __future__ import annotations

import difflib
import importlib
import os
import re
import signal
import sys
from typing import Any, NamedTuple, NoReturn

import click
from click.shell_completion import CompletionItem

from wds_tools import __version__
from wds_tools.errors import ShardstreamError, UsageError, public

__all__ = ["COMMANDS", "CommandEntry", "main", "root", "second_words"]


class CommandEntry(NamedTuple):
    """Where a command lives, and the line that `wds --help` shows for it."""

    target: str
    help: str
    hidden: bool = False


COMMANDS: dict[str, CommandEntry] = {
    "pack": CommandEntry("shardwriter.commands.pack:pack", "Pack SOURCE into shards in OUT."),
    "reshard": CommandEntry("shardwriter.commands.reshard:reshard", "Make new shards in OUT of the samples of URLS."),
    "index": CommandEntry("wds_tools.commands.index:index", "Make the listing and offsets of shards made elsewhere."),
    "info": CommandEntry("wds_tools.commands.info:info", "Say what a dataset holds."),
    "ls": CommandEntry("wds_tools.commands.ls:ls", "List the samples of shards."),
    "cat": CommandEntry("wds_tools.commands.cat:cat", "Write out one field, or show one sample."),
    "verify": CommandEntry("wds_tools.commands.verify:verify_command", "Read everything and list all that is wrong."),
    "cache": CommandEntry("wds_tools.commands.cache:cache", "Look into the cache on disk, empty it, or fill it ahead."),
    "serve": CommandEntry(
        "wds_tools.commands.serve:serve_command", "Serve the files of DIR over HTTP to other machines."
    ),
    "bench codecs": CommandEntry(
        "shardwriter.commands.bench_codecs:bench_codecs", "Compare picture formats on your own pictures."
    ),
    "bench": CommandEntry(
        "loaders.commands.bench:bench", "Measure a loader on your own shards, and name its bottleneck."
    ),
    "tune": CommandEntry("loaders.commands.tune:tune", "Find a loader's settings on your own shards, by measuring."),
    "plan": CommandEntry(
        "loaders.commands.plan:plan_command", "Say what an epoch will be: batches, reading, mixing, memory."
    ),
    "view": CommandEntry("loaders.commands.view:view", "Look at the pictures and other fields of a dataset."),
    "doctor": CommandEntry("wds_tools.commands.doctor:doctor", "Say what this machine can do, and what is in the way."),
    "completion": CommandEntry(
        "wds_tools.commands.completion:completion", "Print what SHELL needs to complete what is typed after wds."
    ),
    "demo": CommandEntry("wds_tools.demo:demo", "From pictures to shards to a small model that learns."),
    "demo-pictures": CommandEntry(
        "wds_tools.demo:demo_pictures", "Make ImageNet-like JPEGs of 24 animals in class folders.", hidden=True
    ),
    "demo-train": CommandEntry(
        "loaders.torch.demo:train", "Train the demo's model on TRAIN and try it on HELD_OUT.", hidden=True
    ),
}


_WORLD, _SHARD, _THREADS = ("world-size",), ("max-samples", "max-bytes"), ("threads", "jobs")
_MEANT = {
    **dict.fromkeys(("ranks", "gpus", "nproc", "nproc-per-node", "num-replicas"), _WORLD),
    **dict.fromkeys(("shard-size", "samples-per-shard", "maxcount", "maxsize"), _SHARD),
    **dict.fromkeys(("workers", "num-workers", "num-threads", "processes"), _THREADS),
}
"""What options are called elsewhere (torchrun, DataLoader, webdataset, FFCV), to what they are called here."""


class _Root(click.Group):
    """A group whose commands are imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        entry = COMMANDS.get(cmd_name)
        return _load(entry) if entry else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = " ".join(args[:2])  # of two words: another command may be called by the first alone
        if name in COMMANDS:
            return name, self.get_command(ctx, name), args[2:]
        if len(args) > 1 and not os.path.lexists(args[1]):
            second = difflib.get_close_matches(args[1], second_words(args[0]), n=1, cutoff=0.7)
            if second:
                ctx.fail(f"There is no command {name!r}. The nearest is '{args[0]} {second[0]}'.")
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            shown = [known for known, entry in COMMANDS.items() if not entry.hidden]
            near = difflib.get_close_matches(name, shown, n=1, cutoff=0.0)[0]
            ctx.fail(f"There is no command {name!r}. The nearest is {near!r}; `wds --help` lists all.")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """First words of commands, and options; from the table, since TAB must not import what commands need."""
        shown = {name: entry.help for name, entry in COMMANDS.items() if not entry.hidden}
        first = {name.partition(" ")[0]: text for name, text in shown.items()} | shown
        found = [CompletionItem(name, help=text) for name, text in first.items() if " " not in name]
        return [item for item in found if item.value.startswith(incomplete)] + click.Command.shell_complete(
            self, ctx, incomplete
        )

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items() if not entry.hidden])

    def invoke(self, ctx: click.Context) -> Any:
        # Translated here and not around main(): click takes every EOFError for a Ctrl-D, and truncated shards are
        # EOFErrors too.
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            told: click.UsageError = error
            if isinstance(error, click.BadParameter):
                told = _with_nearest(error)
            elif isinstance(error, click.NoSuchOption):
                told = _with_meant(error)
            # What was typed is repeated, and may be a url with a password.
            raise click.UsageError(public(told.format_message()), ctx=told.ctx) from None
        except ShardstreamError as error:
            _complain(ctx, str(error), 2 if isinstance(error, UsageError) else 1)
        except KeyboardInterrupt:
            _complain(ctx, "stopped", 130)
        except BrokenPipeError:
            _give_stdout_away()
            ctx.exit(141)
        except OSError as error:
            _complain(ctx, _described(error), 1)


@click.command(
    cls=_Root,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    epilog="`wds COMMAND --help` shows an example of each. Start with `wds demo`.",
)
@click.version_option(__version__, prog_name="wds")
@click.pass_context
def root(ctx: click.Context) -> None:
    """Pictures and labels as plain WebDataset tar shards: make, check and look into them."""
    if os.environ.get("NO_COLOR"):
        ctx.color = False


def second_words(first: str) -> list[str]:
    """What may follow this word in the name of a command, such as "codecs" after "bench"."""
    return [
        name.partition(" ")[2] for name, entry in COMMANDS.items() if name.startswith(f"{first} ") and not entry.hidden
    ]


def main() -> NoReturn:
    """The console script."""
    signal.signal(signal.SIGTERM, _end_tidily)
    root.main(prog_name="wds")
    sys.exit(0)


def _end_tidily(number: int, frame: object) -> NoReturn:
    """A scheduler's SIGTERM runs the `with` blocks and finally clauses, as Ctrl-C does."""
    del frame
    raise SystemExit(128 + number)


def _complain(ctx: click.Context, message: str, status: int) -> NoReturn:
    click.echo(f"wds: {message}", err=True)
    ctx.exit(status)


def _with_nearest(error: click.BadParameter) -> click.BadParameter:
    """Name the nearest valid value, where an option or argument takes one of several."""
    kind = error.param.type if error.param is not None else None
    typed = re.match(r"'(.*)' is not one of ", error.message)  # the value is told in words alone
    if not isinstance(kind, click.Choice) or typed is None:
        return error
    near = difflib.get_close_matches(typed[1], map(str, kind.choices), n=1, cutoff=0.4)
    message = error.message + (f" Did you mean {near[0]!r}?" if near else "")
    return click.BadParameter(message, ctx=error.ctx, param=error.param, param_hint=error.param_hint)


def _with_meant(error: click.NoSuchOption) -> click.UsageError:
    """Name the option that is meant, and not, as click does, one that is only spelled a little like it."""
    typed = error.option_name.lstrip("-").replace("_", "-")
    params = error.ctx.command.params if error.ctx is not None else ()
    known = [name.removeprefix("--") for param in params for name in param.opts if name.startswith("--")]
    message = f"No such option {error.option_name!r}."
    if f"no-{typed}" in known:
        return click.UsageError(f"{message} It is the default, and --no-{typed} turns it off.", ctx=error.ctx)
    meant = [name for name in _MEANT.get(typed, ()) if name in known]
    meant = meant or [name for name in known if len(typed) > 1 and (name.startswith(typed) or typed.startswith(name))]
    meant = meant or difflib.get_close_matches(typed, known, n=1, cutoff=0.7)
    said = f" Did you mean {' or '.join(f'--{name}' for name in meant)}?" if meant else ""
    return click.UsageError(message + said, ctx=error.ctx)


def _load(entry: CommandEntry) -> click.Command:
    module, _, name = entry.target.partition(":")
    command = getattr(importlib.import_module(module), name)
    if not isinstance(command, click.Command):
        raise TypeError(f"{entry.target} is no click command")
    return command


def _give_stdout_away() -> None:
    # Python flushes stdout once more at exit, which would complain again.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _described(error: OSError) -> str:
    what = error.strerror or str(error) or type(error).__name__
    return f"{what}: {os.fsdecode(error.filename)}" if isinstance(error.filename, str | bytes) else what
