"""Existing shards as an input: split, merged, shuffled as a whole, filtered, with fields dropped or renamed.

    with open_shards("old/train-{000000..000099}.tar", where="json.width >= 256", drop=["json"]) as samples:
        pack(samples, "new/", seed=0)

- Any shards that `wds_tools.dataset` opens, local and remote, several datasets one behind the other; samples are read
  at random by the index. Compressed shards (.tar.gz, .tar.zst) are first unpacked, each once, into a nameless temporary
  file, which needs their unpacked size on the disk of `temporary`.
- `where` is a condition (see `expression`). All samples are looked at when the input is made, of each only the headers
  and what the condition asks for; 8 bytes are kept of each that fulfils it. What does not decode stays in the input,
  and is reported when it is packed.
- `keep` or `drop` choose fields, `rename` names them anew. A sample that has nothing left, or a field twice, is
  reported.
- Keys stay. Shards that were written one by one often number their samples from 0 each: keys that come twice among the
  first and last of up to 64 shards (the first of two or three remote ones) are refused at once, any other by the
  writer. `keys` gives numbers or hashes (of the shard's name and the key).

Fields pass as read-only views on the sample's bytes, so that nothing is copied between reading and writing.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import count

import numpy as np
import numpy.typing as npt

from shardwriter.inputs.base import BaseInput, digest
from shardwriter.inputs.choice import Choice
from shardwriter.inputs.expression import Expression
from shardwriter.inputs.members import Members, first_key, read_sample
from shardwriter.inputs.memory import Memory
from shardwriter.inputs.opened import OpenFiles
from shardwriter.inputs.table import Table, open_table
from shardwriter.inputs.windows import READ_BYTES, Windows
from shardwriter.keys import Keys, check_keys, fold, key_of, refuse_equal
from wds_tools import addresses
from wds_tools.errors import DataError, KeyRefusedError, ShardstreamError, UsageError, public, shown, there_are
from wds_tools.sample import KEY, RawSample, Sample
from wds_tools.sources.options import Remote
from wds_tools.tar.runs import as_written
from wds_tools.urls import Urls

__all__ = ["Shards", "open_shards"]

_LOOKED_AT = 64
"""Local shards whose first and last keys are compared beforehand: enough to see that each counts from 0."""


class Shards(BaseInput):
    """Samples of existing shards, as `open_shards` chose them. Close it, or use it with `with`.

    Picklable where no shard is compressed.

    Attributes:
        urls: the shards.
        skipped: how many samples the condition left out.
    """

    def __init__(self, table: Table, choice: Choice, *, where: Expression | None = None, keys: Keys = "path") -> None:
        self._table = table
        self._choice = choice
        self._where = where
        self._keys = check_keys(keys)
        self._starts = table.starts.tolist()
        self._files = OpenFiles(table.urls, opener=table.open)
        self._memory = Memory(READ_BYTES)
        self._shared = _shared_folder([public(url) for url in table.urls])
        self._chosen: npt.NDArray[np.int64] | None = None
        self._suspect: frozenset[int] = frozenset()
        self.skipped: Counter[str] = Counter()

    @property
    def urls(self) -> Sequence[str]:
        return self._table.urls

    @property
    def renamed(self) -> bool:
        return self._keys != "path"

    def __len__(self) -> int:
        return self._starts[-1] if self._chosen is None else len(self._chosen)

    def name(self, index: int) -> str:
        shard, place, begin, _ = self._locate(index)
        return f"{public(self.urls[shard])}[{place}], at byte {begin:,}"

    def original(self, index: int) -> str:
        """The shard below the folder that all have in common, and the key there."""
        return f"{public(self.urls[self._locate(index)[0]])[self._shared :]}/{self._old_key(index)}"

    def key(self, index: int) -> str:
        if self._keys == "number":
            return key_of("number", index, len(self), "", str)
        return self._old_key(index) if self._keys == "path" else key_of("hash", index, 0, self.original(index), str)

    def sample(self, index: int) -> Sample:
        shard, _, begin, end = self._locate(index)
        try:
            with self._files.source(shard) as source:
                if self._where is not None and index in self._suspect:
                    self._where(Members(source, begin, end))  # raises again what it raised when all were looked at
                return self._made(index, read_sample(source, begin, end))
        except ShardstreamError as error:
            raise error.at(url=self.urls[shard]) from error.__cause__

    def side_by_side(self, indexes: Sequence[int]) -> Callable[[int], tuple[Sample, memoryview | None]]:
        """See `shardwriter.inputs.base.SideBySide`."""
        numbers = indexes if self._chosen is None else self._chosen[list(indexes)].tolist()
        windows, places = Windows(self._table, self._files, self._memory, numbers), count()
        as_it_is = self._choice.everything and self._keys == "path"

        def take(index: int) -> tuple[Sample, memoryview | None]:
            found = windows.sample(next(places))
            if found is None or index in self._suspect:
                return self.sample(index), None
            sample, members = found
            if as_it_is:
                return sample, members if as_written(members) else None
            try:
                return self._made(index, sample), None
            except ShardstreamError as error:
                raise error.at(url=self.urls[self._locate(index)[0]]) from error.__cause__

        return take

    def facts(self) -> Mapping[str, object]:
        classes = self._table.listing.get("classes")
        return {"classes": classes} if isinstance(classes, list) and self._choice.keeps("cls") else {}

    def fingerprint(self) -> Mapping[str, object]:
        rows = np.stack([np.diff(self._table.starts), self._table.ends], axis=1)
        chosen = () if self._chosen is None else (self._chosen.tobytes(),)
        return {
            "input": "shards",
            "source": digest(f"{url}\n".encode("utf-8", "surrogateescape") for url in self.urls),
            "shards": digest([rows.astype(np.int64).tobytes()]),
            "samples": len(self),
            "where": None if self._where is None else self._where.text,
            "chosen": digest(chosen),
            "fields": self._choice.words(),
            "keys": self._keys,
        }

    def close(self) -> None:
        self._files.close()
        self._table.close()

    def select(self, progress: Callable[[int], object] | None = None) -> None:
        """Keep the samples that fulfil the condition, and those for which it cannot be decided.

        Raises:
            UsageError: none does, or the condition names a field that no sample has.
            KeyRefusedError: keys that come twice among them.
        """
        if self._where is None:
            return
        chosen, hashes, suspect = array("q"), array("q"), array("q")
        seen: set[str] = set()
        for shard in range(len(self.urls)):
            with self._files.source(shard) as source:
                whole = addresses.is_remote(source.url)
                for number in range(self._starts[shard], self._starts[shard + 1]):
                    begin, end = self._table.range(shard, number)
                    try:
                        members = Members(source, begin, end, whole=whole)
                        seen.update(members.names())
                        if not self._where(members):
                            continue
                        hashes.append(hash(fold(members.key)))
                    except DataError:
                        suspect.append(len(chosen))
                    chosen.append(number)
            if progress is not None:
                progress(self._starts[shard + 1] - self._starts[shard])
        self._check_names(self._where, seen)
        self._chosen = np.frombuffer(chosen, np.int64) if chosen else np.empty(0, np.int64)
        self._suspect = frozenset(suspect)
        self.skipped["not chosen"] = self._starts[-1] - len(chosen)
        if not chosen:
            raise UsageError(f"none of {self._starts[-1]:,} samples fulfils {self._where.text!r}")
        if self._keys == "path" and len(np.unique(np.frombuffer(hashes, np.int64))) < len(hashes):
            good = [at for at in range(len(self)) if at not in self._suspect]
            refuse_equal(len(good), lambda at: self._old_key(good[at]), lambda at: self.name(good[at]))

    def check_keys(self) -> None:
        """Refuse shards that number their samples each from the same key on.

        Raises:
            KeyRefusedError: a key that two of the shards looked at begin or end with.
        """
        if self._keys != "path" or self._where is not None:
            return
        away = addresses.is_remote(self.urls[0])  # each look is a request then
        looked_at = range(0, len(self.urls), max(len(self.urls) // (2 if away else _LOOKED_AT), 1))
        known: dict[str, str] = {}
        for shard in looked_at:
            first, last = self._starts[shard], self._starts[shard + 1] - 1
            for number in sorted({first, first if away else last}) if first <= last else ():
                key = self._old_key(number)
                other = known.setdefault(key, self.urls[shard])
                if other != self.urls[shard]:
                    raise KeyRefusedError(
                        f"the key {shown(key)} is in {other} and in {self.urls[shard]}",
                        cure="Each shard seems to number its samples anew: let keys be numbers or hashes "
                        "(--keys number, --keys hash).",
                    )

    def _made(self, index: int, taken: RawSample) -> Sample:
        """The sample as it is to be written."""
        sample: Sample = taken if self._choice.everything else self._choice.apply(taken)
        if self._keys != "path":
            sample[KEY] = self.key(index)
        return sample

    def _locate(self, index: int) -> tuple[int, int, int, int]:
        """Shard, place in it, and the range of bytes."""
        number = index if self._chosen is None else int(self._chosen[index])
        shard = bisect_right(self._starts, number) - 1
        return shard, number - self._starts[shard], *self._table.range(shard, number)

    def _old_key(self, index: int) -> str:
        shard, _, begin, end = self._locate(index)
        with self._files.source(shard) as source:
            return first_key(source, begin, end)

    def _check_names(self, where: Expression, seen: set[str]) -> None:
        heads = {name.partition(".")[0] for name in seen}
        if missing := sorted(where.names - heads):
            raise UsageError(
                f"the condition names {', '.join(map(repr, missing))}, and no sample has such a field",
                cure=there_are(sorted(seen)),
            )


def _shared_folder(urls: Sequence[str]) -> int:
    """How many characters of all urls are the folder that they have in common."""
    shared = os.path.commonprefix([urls[0], *urls])  # noqa: RUF071 - of urls too; cut at a slash below
    return shared.rfind("/") + 1


def open_shards(
    urls: Urls,
    *,
    where: str | None = None,
    keep: Sequence[str] = (),
    drop: Sequence[str] = (),
    rename: Mapping[str, str] | None = None,
    keys: Keys = "path",
    temporary: str | os.PathLike[str] | None = None,
    remote: Remote | None = None,
    progress: Callable[[int], object] | None = None,
) -> Shards:
    """Open existing shards as an input; see the module for the rules.

    Args:
        urls: as for `wds_tools.dataset.open_dataset`; compressed shards too.
        where: a condition; all samples by default.
        keep: the fields that are taken over; all by default.
        drop: fields that are left out.
        rename: old to new names of fields, applied last.
        keys: "path" keeps the keys, "number" and "hash" give new ones.
        temporary: the folder on whose disk compressed shards are unpacked; the system's by default.
        remote: how remote shards are asked for.
        progress: called with the number of samples that were looked at, where there is a condition.

    Raises:
        UsageError: options that cannot be, no such shards, a condition that no sample fulfils.
        KeyRefusedError: shards whose keys are the same.
        ShardError, ListingError: shards or a listing that are damaged.
    """
    expression = None if where is None else Expression(where)
    choice = Choice(keep=tuple(keep), drop=tuple(drop), rename=dict(rename or {}))
    found = Shards(open_table(urls, temporary=temporary, remote=remote), choice, where=expression, keys=keys)
    try:
        found.check_keys()
        found.select(progress)
    except BaseException:
        found.close()
        raise
    return found
