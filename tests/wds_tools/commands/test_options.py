"""Numbers as commands print them, times as they are typed, and notes, once."""

import logging
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tests.builders import write_tar
from wds_tools.cli import root
from wds_tools.commands.options import Duration, counted, size


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (1.8, "2 bytes"),
        (999, "999 bytes"),
        (1000, "1.0 KB"),
        (107_530, "107.5 KB"),
        (430e6, "430.0 MB"),
        (2.5e9, "2.5 GB"),
        (150e12, "150.0 TB"),
        (12_345e12, "12,345.0 TB"),
    ],
)
def test_sizes_count_in_thousands(count: float, text: str) -> None:
    assert size(count) == text


def test_one_is_singular() -> None:
    assert [counted(number, "shard") for number in (0, 1, 1234)] == ["0 shards", "1 shard", "1,234 shards"]


@pytest.mark.parametrize(
    ("text", "seconds"), [("50ms", 0.05), ("10s", 10), ("2min", 120), ("1.5 h", 5400), ("3", 3), ("250US", 0.00025)]
)
def test_times(text: str, seconds: float) -> None:
    assert Duration().convert(text, None, None) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "ten", "-3s", "5 weeks"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is no time"):
        Duration().convert(text, None, None)


@pytest.mark.parametrize("command", ["verify", "info", "index"])
def test_a_note_of_a_shard_is_told_once(command: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_tar(tmp_path / "a.tar", [("README", b""), ("a.txt", b"")])
    done = CliRunner().invoke(root, [command, str(tmp_path)])
    told = done.output + "".join(record.getMessage() for record in caplog.records)
    assert (done.exit_code, told.count("whose name makes no sample")) == (0, 1), told
    assert not logging.getLogger("wds_tools.shard").filters  # others are told by the log still
