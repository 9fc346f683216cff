"""The root command: light help, a table that agrees with its commands, errors as one line, exit statuses."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from tests.builders import write_labels
from wds_tools.cli import COMMANDS, CommandEntry, root
from wds_tools.errors import NoShardsError, TruncatedShardError

WDS = [sys.executable, "-c", "from wds_tools.cli import main; main()"]


def run(*args: str) -> Result:
    return CliRunner().invoke(root, list(args), prog_name="wds")


def test_help_lists_all_commands_and_imports_none_of_them() -> None:
    code = (
        "import sys; from wds_tools.cli import root; root.main(['--help'], standalone_mode=False);"
        "heavy = {'numpy', 'torch', 'PIL', 'rich', 'webdataset', 'shardwriter', 'loaders'} & set(sys.modules);"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for name, entry in COMMANDS.items():
        assert (f"{name} " in done.stdout and entry.help in done.stdout) is not entry.hidden


def test_python_m_is_the_same_command() -> None:
    for arguments, status in ((["--version"], 0), (["info", "none.tar"], 2)):
        done = subprocess.run(
            [sys.executable, "-m", "wds_tools", *arguments], capture_output=True, text=True, check=False
        )
        result = CliRunner().invoke(root, arguments, prog_name="wds")
        assert (done.returncode, done.stdout, done.stderr) == (status, result.stdout, result.stderr)
        assert result.exit_code == status


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_and_the_command_say_the_same(name: str) -> None:
    done = run(name, "--help")
    assert done.exit_code == 0, done.output
    command = root.get_command(click.Context(root), name)
    assert command is not None
    assert (command.name, command.hidden) == (name, COMMANDS[name].hidden)
    assert command.help is not None
    assert command.help.splitlines()[0] == COMMANDS[name].help
    assert "Example" in done.output


def test_the_version_is_the_packages() -> None:
    from wds_tools import __version__

    assert run("--version").output == f"wds, version {__version__}\n"


@pytest.mark.parametrize(("typed", "meant"), [("lz", "ls"), ("verfy", "verify"), ("Pack", "pack"), ("demos", "demo")])
def test_a_mistyped_command_is_told_the_nearest(typed: str, meant: str) -> None:
    done = run(typed)
    assert done.exit_code == 2
    assert repr(meant) in done.output
    assert "Traceback" not in done.output


def test_a_command_of_two_words_leaves_its_first_word_to_another(monkeypatch: pytest.MonkeyPatch) -> None:
    done = run("bench", "codecs", "--help")
    assert (done.exit_code, "Usage: wds bench codecs" in done.output) == (0, True)
    monkeypatch.setitem(COMMANDS, "bench", CommandEntry("wds_tools.commands.ls:ls", "List the samples of shards."))
    for rest in (("--help",), ("x.tar", "--help")):
        done = run("bench", *rest)
        assert (done.exit_code, "Usage: wds bench [OPTIONS] URLS" in done.output) == (0, True)


def _command(error: BaseException) -> click.Command:
    def fail() -> None:
        raise error

    return click.Command("fail", callback=fail)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (("plan", "--ranks"), "No such option '--ranks'. Did you mean --world-size?"),
        (("pack", "--shard-size"), "No such option '--shard-size'. Did you mean --max-samples or --max-bytes?"),
        (("verify", "--num_workers"), "No such option '--num_workers'. Did you mean --jobs?"),
        (("plan", "--world"), "No such option '--world'. Did you mean --world-size?"),
        (("pack", "--max-sampels"), "No such option '--max-sampels'. Did you mean --max-samples?"),
        (("pack", "--shuffle"), "No such option '--shuffle'. It is the default, and --no-shuffle turns it off."),
        (("info", "--ranks"), "No such option '--ranks'."),
        (("--lanes",), "No such option '--lanes'."),
    ],
)
def test_an_unknown_option_is_answered_with_the_one_that_is_meant(typed: tuple[str, ...], said: str) -> None:
    result = run(*typed, "4", "a.tar")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == f"Error: {said}"


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (NoShardsError("no shards match", cure="Look."), 2, "wds: no shards match. Look."),
        # An EOFError, which click alone would take for Ctrl-D.
        (TruncatedShardError("cut", url="a.tar", offset=7), 1, "wds: cut (shard a.tar, offset 7)"),
        (PermissionError(13, "Permission denied", "/x"), 1, "wds: Permission denied: /x"),
        (OSError(28, "No space left on device"), 1, "wds: No space left on device"),
        (KeyboardInterrupt(), 130, "wds: stopped"),
    ],
)
def test_errors_are_one_line_and_a_status(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, status: int, line: str
) -> None:
    monkeypatch.setattr("wds_tools.cli._load", lambda _: _command(error))
    done = run("ls")
    assert (done.exit_code, done.stdout, done.stderr.splitlines()) == (status, "", [line])


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wds_tools.cli._load", lambda _: _command(RuntimeError("a bug")))
    assert isinstance(run("ls").exception, RuntimeError)


def test_what_is_no_command_in_the_table_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMMANDS, "odd", CommandEntry("wds_tools.cli:COMMANDS", "Odd."))
    assert isinstance(run("odd").exception, TypeError)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> str:
    """So many samples that their list is larger than a pipe."""
    return write_labels(tmp_path_factory.mktemp("many"), [9000])


def _start(many: str) -> subprocess.Popen[bytes]:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.Popen(
        [*WDS, "ls", "--json", many], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    )


def test_a_reader_that_goes_away_ends_the_command_quietly(many: str) -> None:
    with _start(many) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141


@pytest.mark.parametrize(
    ("number", "status", "said"), [(signal.SIGINT, 130, b"wds: stopped\n"), (signal.SIGTERM, 143, b"")]
)
def test_signals_end_the_command_in_order(many: str, number: signal.Signals, status: int, said: bytes) -> None:
    with _start(many) as process:
        assert process.stdout is not None
        process.stdout.readline()  # it is at work now, and cannot end before the pipe is emptied
        process.send_signal(number)
        _, complaints = process.communicate()
    assert process.returncode == status
    assert complaints.strip() == said.strip()


def test_no_message_names_a_command_that_there_is_not() -> None:
    folder = Path(sys.modules["wds_tools"].__file__ or "").parent
    named = {word for path in folder.rglob("*.py") for word in re.findall(r"`wds ([a-z][a-z-]*)", path.read_text())}
    assert {"index", "verify"} <= named <= set(COMMANDS)
