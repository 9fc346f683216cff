"""What a run waits for, in one sentence, from what was counted while it ran. Pure.

Either the consumer or the loader sets the pace. Where the consumer waits less than 5% of the time, it does; then what
the loader could give is its samples over the time in which its threads had work. Up to 10% it does too, if the threads
had time to spare: these are batches that came late one by one, the first one among them, and no faster loader would
give more than a tenth. Else the loader does, and the time of its threads says by what: by bytes that have to come (from
a disk, from a host), by decoding, by the interpreter's lock, or by nothing that the threads did: then they were idle,
because too few batches may be begun ahead, or because planning was not done in time.

What is named as a way out is taken from the same counts:

- a decode-bound run could have smaller pictures. The cost of a pixel is decoding time over the pixels of the pictures
  seen (the first one of each chunk is looked at: one in 16), and what they would have if their shorter side were 8/7 of
  the crop (256 for 224), as CenterCrop has it and `wds reshard --resize` makes it, is counted beside. Reading and
  decoding are taken as proportional to it, making batches as it is. Tried on ImageNet-like pictures: 2.3 was said, 2.6
  came out, since such pictures have fewer bits a pixel. Beyond 4 what does not depend on the size of pictures counts
  too, which nobody measured: then only "more than 4" is said. `wds bench` tries it, on some of the pictures.
- a run that waits for bytes would, without that, take the rest of its threads' time.
- threads that get no core may lack it for what their own process does to fetch: with a request for each picture of
  23 KB they got 20% of a core, and a third to a fifth of the rate that the same shards had from a disk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

__all__ = ["Bound", "Figures", "Verdict", "judged"]

Bound: TypeAlias = Literal["nothing", "consumer", "decode", "read", "fetch", "lock", "cores", "prefetch", "plan"]

_WAIT = 0.05  # of the time; less is what handing over batches takes, and nobody can speed up training by it
_HITCHES = 0.1  # of the time; more is no matter of single batches
_SPARE = 0.8  # of the threads' time; where they had work for less, they could have given more
_BUSY = 0.6  # of the threads' time; where less, they are not what is waited for
_READER = 0.8  # of the time of the one thread that reads streams
_PLAN = 0.5  # of the time
_HELD_UP = 0.6  # cores that a thread got while it decoded: less says that it waited for a lock or for a core
_FEW_SAMPLES = 4  # of a request: fetching fewer at a time takes as much of a core as decoding small pictures does
_WORTHWHILE = 1.15
_MOST = 4.0


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What was counted. Seconds of threads are added up over all threads.

    Attributes:
        seconds: wall clock.
        samples: handed out.
        batches: handed out.
        bytes: encoded bytes read, of batches made, handed out or not.
        wait_seconds: of the consumer, inside the loader.
        read_seconds: of threads, reading; waiting for remote bytes included.
        fetch_wait_seconds: of threads, waiting for remote bytes.
        decode_seconds: of threads, decoding, resizing and transforming; waiting for the interpreter included.
        decode_cpu_seconds: of these and of read_seconds, on a core.
        batch_seconds: of threads, making a batch of its samples.
        plan_seconds: of the one thread that looks up which samples are next.
        cpu_seconds: of the whole process, the consumer's own included.
        ready: finished batches that waited when the consumer came, added up over batches.
        threads: decode threads.
        readers: threads that read for the decode threads, whose time read_seconds then is; 0 where these read
            themselves.
        cores: that this process may use.
        prefetch: batches that may be begun ahead.
        looked_at: pictures whose size was looked at.
        pixels: of these, as stored.
        small_pixels: of these, if their shorter side were at most `small_side`.
        small_side: pixels, 8/7 of the crop; 0 where no picture is cropped.
        transformed: whether there is a transform or a collate of the user's.
        requests: ranges that were fetched of remote shards, not counting what was tried again.
    """

    seconds: float
    samples: int
    batches: int
    bytes: int
    wait_seconds: float
    decode_seconds: float
    read_seconds: float
    threads: int
    fetch_wait_seconds: float = 0.0
    decode_cpu_seconds: float = 0.0
    batch_seconds: float = 0.0
    plan_seconds: float = 0.0
    cpu_seconds: float = 0.0
    ready: int = 0
    readers: int = 0
    cores: int = 1
    prefetch: int = 0
    looked_at: int = 0
    pixels: float = 0.0
    small_pixels: float = 0.0
    small_side: int = 0
    transformed: bool = False
    requests: int = 0

    @property
    def samples_per_second(self) -> float:
        return self.samples / self.seconds if self.seconds else 0.0

    @property
    def bytes_per_second(self) -> float:
        return self.bytes / self.seconds if self.seconds else 0.0

    @property
    def wait_share(self) -> float:
        """The part of the time in which the consumer waited, 0 to 1."""
        return self.wait_seconds / self.seconds if self.seconds else 0.0

    @property
    def thread_seconds(self) -> float:
        """All that the threads had, idle or not."""
        return self.seconds * self.threads

    @property
    def busy_seconds(self) -> float:
        """Of the threads, with work."""
        read = 0.0 if self.readers else self.read_seconds
        return read + self.decode_seconds + self.batch_seconds

    @property
    def idle_seconds(self) -> float:
        """Of the threads, without."""
        return max(0.0, self.thread_seconds - self.busy_seconds)

    @property
    def busy_share(self) -> float:
        """The part of the threads' time in which they had work, 0 to 1."""
        return min(1.0, self.busy_seconds / self.thread_seconds) if self.thread_seconds else 0.0

    @property
    def fetch_wait_share(self) -> float:
        """The part of the threads' time in which they waited for remote bytes, 0 to 1."""
        return self.fetch_wait_seconds / self.thread_seconds if self.thread_seconds else 0.0

    @property
    def cores_used(self) -> float:
        """Cores that the process kept busy, on average."""
        return self.cpu_seconds / self.seconds if self.seconds else 0.0

    @property
    def queue(self) -> float:
        """Finished batches that waited when the consumer came, on average; 0 to `prefetch`."""
        return self.ready / self.batches if self.batches else 0.0

    @property
    def reshard_gain(self) -> float:
        """By what the loader would be faster with pictures of `small_side`, see the module; 1 where nobody knows."""
        part = self.small_pixels / self.pixels if self.pixels else 1.0
        return self.gain(decoding=part, reading=part)

    def gain(self, *, decoding: float, reading: float) -> float:
        """By what the loader would be faster if decoding and reading took these parts of the time that they took."""
        smaller = self.read_seconds * reading + self.decode_seconds * decoding + self.batch_seconds
        return self.busy_seconds / smaller if smaller else 1.0


class Verdict(NamedTuple):
    """What sets the pace, and the sentence that says so."""

    bound: Bound
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def judged(run: Figures, *, tried: float | None = None) -> Verdict:
    """What sets the pace of a run.

    Args:
        run: the counts.
        tried: by what smaller pictures made the loader faster, where that was tried; else it is estimated.
    """
    if not run.batches or not run.seconds:
        return Verdict("nothing", "nothing was handed out yet")
    waited = f"the consumer waited {run.wait_share:.0%} of the time"
    if run.wait_share < _WAIT:
        return Verdict("consumer", f"consumer-bound: {waited}; {_headroom(run)}")
    if run.wait_share < _HITCHES and _spare(run):
        late = f"for single batches that came late, of which Reading(prefetch={2 * max(1, run.prefetch)}) hides more"
        return Verdict("consumer", f"consumer-bound: {waited}, {late}; {_headroom(run)}")
    if run.readers or run.busy_share >= _BUSY:
        return _reading(run, waited) or _decoding(run, waited, tried)
    return _idle(run, waited)


def _spare(run: Figures) -> bool:
    """Whether all that work for the loader had time to spare."""
    reader = run.read_seconds / (run.seconds * run.readers) if run.readers else 0.0
    return run.busy_share < _SPARE and reader < _READER


def _headroom(run: Figures) -> str:
    if not run.busy_share:
        return "the loader had next to nothing to do"
    could = run.samples_per_second / run.busy_share
    return (
        f"its {_threads(run)} had work {run.busy_share:.0%} of it, so the loader could give about {could:,.0f} samples "
        f"a second, {1 / run.busy_share:.1f}x"
    )


def _reading(run: Figures, waited: str) -> Verdict | None:
    """Where it is the bytes that are waited for."""
    if run.readers:
        share = run.read_seconds / (run.seconds * run.readers)
        said = f"read-bound: the thread that reads the streams was busy {share:.0%} of the time; {waited}"
        return Verdict("read", said) if share > _READER else None
    rate = f"{run.bytes_per_second / 1e6:,.0f} MB a second"
    for bound, what, seconds in _WAITS:
        if (spent := seconds(run)) > run.busy_seconds / 2:
            share = spent / run.busy_seconds
            said = f"{bound}-bound: {what} took {share:.0%} of the threads' work ({rate}); {waited}"
            gain = f"about {1 / (1 - share):.1f}x" if share < 1 - 1 / _MOST else f"more than {_MOST:.0f}x"
            return Verdict(bound, f"{said}; without that the loader would give {gain}")
    return None


_WAITS: tuple[tuple[Bound, str, Callable[[Figures], float]], ...] = (
    ("fetch", "waiting for remote bytes", lambda run: run.fetch_wait_seconds),
    ("read", "reading", lambda run: run.read_seconds),
)


def _idle(run: Figures, waited: str) -> Verdict:
    """Where the threads had too little to do."""
    idle = f"{_threads(run)} without work {1 - run.busy_share:.0%} of the time"
    if run.plan_seconds > _PLAN * run.seconds:
        share = run.plan_seconds / run.seconds
        return Verdict("plan", f"plan-bound: {idle}, since finding what comes next took {share:.0%} of it; {waited}")
    return Verdict(
        "prefetch",
        f"prefetch-bound: {idle}, since only {run.prefetch} batches may be begun ahead; {waited}; "
        f"Reading(prefetch={2 * max(1, run.prefetch)}) gives them more to do",
    )


def _decoding(run: Figures, waited: str, tried: float | None) -> Verdict:
    """Where the threads are the limit, by what they do."""
    got = run.decode_cpu_seconds / run.decode_seconds if run.decode_seconds else 1.0
    if 0 < got < _HELD_UP:
        said = f"{_threads(run)} got {got:.0%} of a core each while they decoded; {waited}; "
        if run.transformed and run.threads > 1:
            why = "transform= or collate= holds the interpreter's lock, which ShardDataset in worker processes avoids"
            return Verdict("lock", f"lock-bound: {said}{why}")
        return Verdict("cores", f"core-bound: {said}{_who_else(run)}")
    said = f"decode-bound: {run.cores_used:.1f} of {run.cores} cores busy; {waited}"
    if run.threads < run.cores:
        return Verdict("decode", f"{said}; threads={run.cores} would use all cores")
    gain = run.reshard_gain if tried is None else tried
    if gain > _WORTHWHILE:
        much = f"more than {_MOST:.0f}x" if tried is None and gain > _MOST else f"about {gain:.1f}x"
        said += f"; a {run.small_side}-pixel reshard would give {much}"
    return Verdict("decode", said)


def _who_else(run: Figures) -> str:
    """Who may have the cores that the threads did not get."""
    if run.samples >= _FEW_SAMPLES * run.requests:
        return "other processes, or the training itself, use the cores"
    size = f"{run.bytes / run.requests / 1000:,.0f} KB"
    return f"fetching in requests of {size} uses the cores, or other processes do; Reading(cache_dir=...) fetches once"


def _threads(run: Figures) -> str:
    return "1 thread" if run.threads == 1 else f"{run.threads} threads"
