"""`python -m benchmarks`: run them, print the table, keep it as JSON. See README.md beside this file."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from benchmarks.decoded import decoded
from benchmarks.first_batch import first_batch
from benchmarks.http import http
from benchmarks.kernel import kernel
from benchmarks.material import DEFAULT_FOLDER, Material, prepare
from benchmarks.memory import memory
from benchmarks.npy import npy
from benchmarks.pack import pack
from benchmarks.peers import PEERS
from benchmarks.picture import draw
from benchmarks.race import RACE, race
from benchmarks.raw import raw
from benchmarks.scale import scale
from benchmarks.scaling import scaling
from benchmarks.shuffle import shuffle
from benchmarks.table import Row, environment, text, write_json
from benchmarks.timing import Watch
from benchmarks.write import write

BENCHMARKS: Mapping[str, Callable[[Material, Watch], list[Row]]] = {
    "raw": raw,
    "peers": race,
    "kernel": kernel,
    "npy": npy,
    "decoded": decoded,
    "write": write,
    "pack": pack,
    "first_batch": first_batch,
    "memory": memory,
    "scaling": scaling,
    "shuffle": shuffle,
    "scale": scale,
    "http": http,
}
RESULTS = Path(__file__).parent / "results"
COUNT, QUICK_COUNT = 4000, 256


def main(arguments: list[str] | None = None) -> int:
    """Run what was asked for; 1 if a goal was missed."""
    options = _parser().parse_args(arguments)
    watch = Watch(rounds=1, machine=False) if options.quick else Watch(rounds=options.rounds)
    material = prepare(options.data, count=QUICK_COUNT if options.quick else COUNT)
    rows: list[Row] = []
    for name in options.only or BENCHMARKS:
        sys.stderr.write(f"{name} ...\n")
        rows += _named(name, options)(material, watch)
    facts = environment() | {
        "quick": options.quick,
        "rounds": watch.rounds,
        "pictures": material.count,
        "mean_picture_bytes": material.mean_bytes(),
    }
    path = options.json or RESULTS / f"{datetime.now(UTC):%Y%m%d-%H%M%S}.json"
    write_json(path, rows, facts)
    if options.png:
        draw([row for row in rows if row.work == RACE], facts, options.png)
    print(text(rows))
    print(f"\n{'quick: these figures mean nothing. ' if options.quick else ''}Kept in {path}")
    return 0 if options.quick or all(row.met is not False for row in rows) else 1


def _named(name: str, options: argparse.Namespace) -> Callable[[Material, Watch], list[Row]]:
    if name == "peers":
        return partial(race, names=options.peer, environments=options.environments)
    if name == "scaling":
        return partial(scaling, names=options.peer, environments=options.environments)
    return BENCHMARKS[name]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="a few pictures, one round, no checks: does it run at all?"
    )
    parser.add_argument("--only", action="append", choices=list(BENCHMARKS), metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--rounds", type=int, default=5, help="samples of each contestant [5]")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="where to keep the figures [benchmarks/results/TIME.json]"
    )
    parser.add_argument("--png", type=Path, metavar="FILE", help="draw the contestants of `peers` there")
    parser.add_argument("--peer", action="append", choices=list(PEERS), metavar="NAME", help=", ".join(PEERS))
    parser.add_argument(
        "--environments",
        type=Path,
        metavar="DIR",
        help="where `python -m benchmarks.peers.install` put them [DATA/environments]",
    )
    parser.add_argument("--data", type=Path, default=DEFAULT_FOLDER, help=f"where the pictures lie [{DEFAULT_FOLDER}]")
    return parser


if __name__ == "__main__":
    sys.exit(main())
