"""pack: from whatever people have to shards, in one call, that can be killed at any moment and called again.

    summary = pack("pictures/", "out/", name="train", seed=0)

The input says what the samples are (shardwriter.inputs), a permutation by the seed in which order they are packed: over
the whole input, since shards in the order of their classes mix badly later. The listing says whether and by which seed.
Same input, settings and seed give the same bytes, whatever the number of jobs, in whatever order the file system lists
its folders, and however often the run was broken and begun again.

Samples are read, checked, transcoded and encoded by a few threads and written in their order by one (shardwriter.jobs,
shardwriter.run). Bytes are unchanged unless a transcoder is given. What cannot be read or shown is not packed but
reported: a line in `failures.jsonl` beside the shards with path, kind and reason, and a count by kind. A picture
whose bytes are of another format than its name says is packed as it is, and counted: readers go by the bytes.

A run that ends early, by an error, Ctrl-C, SIGKILL or a power cut, leaves whole shards and a hidden journal
(shardwriter.journal). The same call goes on from there and does only what is missing; a call with other settings or
another input is refused and told what changed; `overwrite=True` begins anew.

Beside the shards lie `dataset.json` with its offsets and, where there are classes, `classes.txt`, one name a line.
Everything is checked before the first byte is written, and the listing is written last.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from shardwriter.check import Check
from shardwriter.engines import EngineName, engine_named, pack_parts
from shardwriter.inputs import Input
from shardwriter.inputs.opening import nearest_folder, open_input
from shardwriter.jobs import check_jobs
from shardwriter.joint import check_joined, check_parts_free, clear_joined
from shardwriter.journal import journal_path
from shardwriter.parts import Part, check_enough, check_part, check_parts, parts_for
from shardwriter.place import Place, place_of
from shardwriter.plan import CLASSES_NAME, FAILURES_NAME, Leg, targets
from shardwriter.settings import Prepare, Settings
from shardwriter.summary import PackSummary
from shardwriter.task import Task
from shardwriter.transcode import To, Transcode
from shardwriter.transcoder import Transcoder
from shardwriter.watch import Watch
from wds_tools.addresses import absolute
from wds_tools.checksum import Checksum
from wds_tools.errors import UsageError
from wds_tools.pictures.options import Pictures
from wds_tools.sources.options import Remote

__all__ = ["CLASSES_NAME", "FAILURES_NAME", "PackSummary", "check_target", "pack"]


def pack(
    source: str | os.PathLike[str] | Input,
    out: str | os.PathLike[str],
    *,
    name: str = "train",
    max_samples: int | None = 10_000,
    max_bytes: int | None = 1_000_000_000,
    seed: int = 0,
    shuffle: bool = True,
    check: Check = "header",
    pictures: Pictures | None = None,
    transcode: Transcode | Prepare | None = None,
    to: To | None = None,
    resize: int | None = None,
    quality: int | None = None,
    checksum: Checksum | None = "xxh3",
    dedup: bool = False,
    split: Mapping[str, float] | None = None,
    part: Part | None = None,
    parts: int | None = None,
    engine: EngineName = "local",
    address: str | None = None,
    jobs: int | None = None,
    max_failures: int | None = None,
    overwrite: bool = False,
    progress: Callable[[int], object] | None = None,
    resumed: Callable[[int], object] | None = None,
    told: Callable[[str], object] | None = None,
    command: str | None = None,
    remote: Remote | None = None,
) -> PackSummary:
    """Pack an input into shards `out/NAME-000000.tar` and so on, or go on with a run that was stopped.

    Args:
        source: a folder of class folders or of files that belong together, a table, an array, shards, and what else
            shardwriter.inputs.kinds knows by its name or content; or any `Input`, for all that has options.
        out: the folder for the shards; made if missing. One folder a dataset: its listing is `dataset.json`. Or a place
            in a store, such as "s3://bucket/train" (shardwriter.remote, shardwriter.place).
        name: what the shards' names begin with.
        max_samples: the most samples of a shard, None for no limit.
        max_bytes: the most bytes of a shard's file, None for no limit.
        seed: of the order, 0 to 2**64 - 1.
        shuffle: off keeps the order of the input.
        check: "header" or "decode": how far pictures are checked (shardwriter.check).
        pictures: the limit of pixels, as the readers will have it.
        transcode: what pictures shall become, or any object with `prepare(sample)`, which is called from any thread and
            whose `repr` is what a stopped run is compared by. None for unchanged bytes.
        to: short for transcode=Transcode(to=...), and with the next two for all three.
        resize: the shorter side in pixels, at most.
        quality: of the pictures that are encoded, 1 to 100.
        checksum: "xxh3", "sha256" or None: of each shard, computed while it is written, for the listing.
        dedup: leave out samples whose pictures came before in the order of packing, byte by byte, in the whole run,
            whatever their labels. They are reported, not counted as failures. 16 bytes a sample of memory. Of several
            parts each looks at its own samples only.
        split: share by name, such as {"val": 0.05}: that share of the samples, by a hash of the key, goes to a dataset
            of its own in `out/val`, and the rest to `out/NAME`, with the same labels (shardwriter.split).
        part: (i, n): pack only the i-th n-th, i from 0 on, into shards `out/NAME-i-of-n-000000.tar` with a listing of
            their own, for runs on several machines; `merge_listings` joins them (`wds index --merge`).
        parts: do all of so many parts and join them, as an engine does. None with an engine: a part for each 100,000
            samples, at most 1,024. The number of parts decides the bytes, the engine does not.
        engine: where parts are done: "local", one after the other, or "ray", on a cluster (shardwriter.engines).
        address: of the cluster: for Ray "auto" or "ray://host:10001", None for that which this process has joined,
            else "auto".
        jobs: threads that prepare samples, of each part; None for all usable cores, on a cluster for one.
        max_failures: end with an error when more samples than this could not be packed; the same call then goes on,
            with what was mended or another limit. None for any number.
        overwrite: replace the dataset of the same name that lies in `out`, or the beginnings of one.
        progress: called with the number of samples done since the last call.
        resumed: called with the number of samples that an earlier run had done; by default `progress` is.
        told: called with a few words, such as "12 shards, 3 not packed", whenever they change.
        command: what the listing should say made it; by default this call, without paths.
        remote: how a store is asked; `storage` has the options of its file system.

    Raises:
        UsageError: an option or an input that cannot be, or more parts than samples.
        TargetError: `out` holds another dataset, or the beginnings of another run; the message says what differs.
        TooManyFailuresError: more failures than `max_failures`.
        UnavailableError: the disk is full, or a folder cannot be read.
    """
    settings = Settings(
        name=name,
        max_samples=max_samples,
        max_bytes=max_bytes,
        seed=seed,
        shuffle=shuffle,
        check=check,
        pictures=Pictures() if pictures is None else pictures,
        transcode=_stage(transcode, to, resize, quality),
        checksum=checksum,
        dedup=dedup,
        split=dict(split or {}),
    )
    where = _cut(part, parts, engine)
    runner = engine_named(engine, address)
    threads, most = 1 if jobs is None and engine != "local" else check_jobs(jobs), _most(max_failures)
    place = place_of(out, remote, part=part)
    _check_outside(source, place)
    watch = Watch(progress=progress or _silent, resumed=resumed, told=told or _silent)
    with contextlib.ExitStack() as stack:
        if isinstance(source, str | os.PathLike):
            source = stack.enter_context(open_input(source, temporary=nearest_folder(out)))
        check_enough(len(source), parts or (part or (0, 1))[1])
        task = Task(
            samples=source,
            out=absolute(os.fspath(out)),
            settings=settings,
            command=command or settings.call(),
            part=part,
            jobs=threads,
            max_failures=most,
            overwrite=overwrite,
            remote=remote,
        )
        if not where:
            if part is None:
                check_joined(task.targets(), overwrite=overwrite)
            if overwrite and part is None:
                clear_joined(task)
            return task.run(watch)
        return pack_parts(task, parts or parts_for(len(source)), runner, watch)


def check_target(
    source: str | os.PathLike[str] | Input,
    out: str | os.PathLike[str],
    *,
    name: str = "train",
    split: Mapping[str, float] | None = None,
    part: Part | None = None,
    parts: int | None = None,
    engine: EngineName = "local",
    overwrite: bool = False,
    remote: Remote | None = None,
) -> None:
    """Look at what lies there: cheap, for before the input is read. `pack` looks again.

    Raises:
        UsageError: a name that is no name, or `out` within the source; TargetError: `out` holds something already.
    """
    settings = Settings(name=name, split=dict(split or {}))
    place = place_of(out, remote, part=part)
    _check_outside(source, place)
    if _cut(part, parts, engine):
        if not overwrite:
            check_parts_free(place, settings, parts)
        return
    legs = targets(place, settings, part)
    if overwrite or not os.path.lexists(_journal(place, legs[-1])):
        for leg in legs if part is not None else check_joined(legs, overwrite=overwrite):
            leg.check_free(overwrite=overwrite)


def _cut(part: Part | None, parts: int | None, engine: str) -> bool:
    """Whether this is a run in parts, and all of them."""
    cut = check_parts(parts) is not None or engine != "local"
    if check_part(part) is not None and cut:
        raise UsageError(
            "part is one part of a run, parts and engine are for all of them", cure="Leave part away, or the others."
        )
    return cut


def _stage(
    transcode: Transcode | Prepare | None, to: To | None, resize: int | None, quality: int | None
) -> Prepare | None:
    if to is not None or resize is not None or quality is not None:
        if transcode is not None:
            raise UsageError("to, resize and quality are short for a transcode, which is given too", cure="Give one.")
        transcode = Transcode(to=to, resize=resize, quality=quality)
    return Transcoder(transcode) if isinstance(transcode, Transcode) else transcode


def _journal(place: Place, main: Leg) -> Path:
    return journal_path(place.home, main.target.prefix.removesuffix("-"))


def _silent(_: object) -> None:
    """Nobody listens."""


def _most(max_failures: int | None) -> int | None:
    bad = isinstance(max_failures, bool) or not isinstance(max_failures, int | None)
    if bad or (max_failures is not None and max_failures < 0):
        raise UsageError(f"max_failures is {max_failures!r}, expected an int of 0 or more, or None for any number")
    return max_failures


def _check_outside(source: str | os.PathLike[str] | Input, place: Place) -> None:
    root = Path(source) if isinstance(source, str | os.PathLike) else getattr(source, "root", None)
    if isinstance(root, Path) and place.base is None and place.home.resolve().is_relative_to(root.resolve()):
        raise UsageError(
            f"the target {place} lies inside the source, where the next run would take it for a class",
            cure="Write to a folder outside.",
        )
