"""Archives as people have them: unsorted, cut, joined, linked, with holes, with headers that stretch the format."""

from __future__ import annotations

import struct
import tarfile
from collections.abc import Sequence
from pathlib import Path

from tests.builders import picture
from tests.wds_tools.tar.archives import END, archive, entry, gnu_tar, patched

__all__ = [
    "absurd_sizes",
    "abused_headers",
    "cut_at",
    "dotted",
    "duplicates",
    "endings",
    "far_apart",
    "formats",
    "large_by_name",
    "linked",
    "not_utf8",
    "raw_names",
    "sample",
    "sparse",
    "unsorted",
]

HARD, SOFT = b"1", b"2"


def sample(key: str, number: int = 0) -> bytes:
    """A picture and a label, as they lie in a shard."""
    return entry(f"{key}.jpg", picture(number)) + entry(f"{key}.cls", b"%d" % number)


def dotted() -> bytes:
    """Names with dots where nobody expects them."""
    names = (
        "235342 Track 2.0 (Clean).jpg",
        "235342 Track 2.0 (Clean).json",
        "train.v1/0001.jpg",
        "train.v1/0001.cls",
        "a/22.0/1.1.png",
        "x.jpg",
        "x.seg.png",
        "README",
        ".hidden",
        "name.",
    )
    return archive([(name, b"{}") for name in names])


def unsorted() -> bytes:
    """All pictures, then all labels, as a plain `tar cf` of a folder may have it."""
    return archive([("0.jpg", picture(0)), ("1.jpg", picture(1)), ("0.cls", b"0"), ("1.cls", b"1")])


def far_apart() -> bytes:
    """A sample whose last member comes ten members later."""
    between = [(f"{n}.{field}", b"1") for n in range(1, 6) for field in ("cls", "txt")]
    return archive([("0.jpg", picture(0)), *between, ("0.json", b"{}")])


def cut_at() -> dict[str, bytes]:
    """Three samples, cut in every kind of place; the first two are whole in all but one of them."""
    first, second, third = (sample(str(n), n) for n in range(3))
    whole = first + second
    label = entry("2.cls", b"2")
    image = third[: -len(label)]
    return {
        "inside the data": whole + image[:1000],
        "100 bytes into a header": whole + image + label[:100],
        "on a header": whole + image,
        "before the padding": whole + image + label[:513],
        "before the end of the archive": whole + third,
    }


def duplicates() -> dict[str, bytes]:
    """A member that comes twice, in the ways of appending and merging. The sample `z` behind it is sound."""
    good = sample("z", 9)
    return {
        "again after another field": archive([("0.jpg", b"a"), ("0.cls", b"0"), ("0.jpg", b"b")])[:-1024] + good + END,
        "twice in a row": archive([("0.jpg", b"a"), ("0.jpg", b"b")])[:-1024] + good + END,
        "in another case": archive([("0.jpg", b"a"), ("0.JPG", b"b")])[:-1024] + good + END,
    }


def formats(folder: Path) -> dict[str, bytes]:
    """The same samples in each of tarfile's formats, and as GNU tar's posix format with times of parts of a second."""
    long = "d" * 120 + "/" + "e" * 30 + "/0"
    members = [(f"{long}.jpg", picture(0)), (f"{long}.cls", b"0"), ("1.jpg", picture(1)), ("1.cls", b"1")]
    made = {
        "GNU": archive(members, form=tarfile.GNU_FORMAT),
        "PAX": archive(members, form=tarfile.PAX_FORMAT),
        "PAX with a global header": archive(members, form=tarfile.PAX_FORMAT, pax={"comment": "x", "mtime": "1.5"}),
    }
    for name, data in members:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    names = [name for name, _ in members]
    return made | {"GNU tar, posix": gnu_tar("-c", "--format=posix", *names, folder=folder)}


def endings() -> dict[str, tuple[bytes, Sequence[str], str]]:
    """What may follow, or lack, at an archive's end: the bytes, the keys in it, and what is said of it ("" nothing)."""
    a, b = sample("a", 1), sample("b", 2)
    return {
        "two archives": (a + END + b + END, "ab", "2 archives one behind the other"),
        "text": (a + b + END + b"not a header\n" * 270, "ab", "3,510 bytes of something else"),
        "no end": (a + b, "ab", "no end of archive"),
        "half an end": (a + b + bytes(512), "ab", "no end of archive"),
        "a MiB of zeros": (a + b + bytes(1 << 20), "ab", ""),
        "a lone zero block": (a + bytes(512) + b + END, "ab", "1 lone zero block"),
    }


def large_by_name() -> dict[str, bytes]:
    """A small member whose size stands where large ones have theirs: in a PAX record, in base 256."""
    data = picture(5)
    padded = data + bytes(-len(data) % 512)
    pax = entry("big.jpg", pax_headers={"size": str(len(data))}, form=tarfile.PAX_FORMAT)
    binary = patched(entry("big.jpg"), 124, b"\x80" + struct.pack(">3xQ", len(data)))
    behind = entry("big.cls", b"5") + END
    return {"PAX": pax + padded + behind, "base 256": binary + padded + behind}


def absurd_sizes() -> dict[str, bytes]:
    """Sizes that cannot be."""
    good = sample("0")
    return {
        "negative, base 256": good + patched(entry("1.jpg"), 124, b"\xff" * 12) + END,
        "beyond the file, PAX": good + entry("1.jpg", pax_headers={"size": "9" * 15}, form=tarfile.PAX_FORMAT) + END,
        "beyond all files, base 256": good + patched(entry("1.jpg"), 124, b"\x80" + b"\xff" * 11) + END,
    }


def linked() -> bytes:
    """A tree that was deduplicated with links, and what else a root folder brings along."""
    return b"".join(
        (
            entry("./", type=b"5"),
            entry("d/", type=b"5"),
            entry("d/0.jpg", picture(0)) + entry("d/0.cls", b"0"),
            entry("d/1.jpg", type=HARD, linkname="d/0.jpg") + entry("d/1.cls", b"1"),
            entry("d/2.jpg", type=SOFT, linkname="0.jpg") + entry("d/2.cls", b"2"),
            entry("d/3.jpg", type=HARD, linkname="d/5.jpg") + entry("d/3.cls", b"3"),
            entry("d/4.jpg", type=SOFT, linkname="/etc/passwd") + entry("d/4.cls", b"4"),
            entry("d/fifo", type=b"6"),
            entry("d/null", type=b"3"),
            entry("d/5.jpg", picture(5)) + entry("d/5.cls", b"5"),
            END,
        )
    )


def sparse(folder: Path, form: str) -> bytes:
    """1 MiB with a word at 500,000, packed with its holes by GNU tar."""
    with (folder / "0.bin").open("wb") as file:
        file.truncate(1 << 20)
        file.seek(500_000)
        file.write(b"hello")
    (folder / "0.cls").write_bytes(b"0")
    (folder / "1.cls").write_bytes(b"1")
    return gnu_tar("-c", "--sparse", f"--format={form}", "0.bin", "0.cls", "1.cls", folder=folder)


def not_utf8() -> dict[str, list[bytes]]:
    """Names of one sample's two members, as bytes."""
    kinds = {
        "Latin-1": b"caf\xe9",
        "Windows 1251": "фото".encode("cp1251"),
        "composed": "é".encode(),
        "decomposed": "e\u0301".encode(),
        "emoji beyond 100 bytes": "😀".encode() * 30,
    }
    return {name: [key + b".jpg", key + b".cls"] for name, key in kinds.items()}


def raw_names(names: Sequence[bytes]) -> bytes:
    """An archive of empty members with these names, whatever their bytes."""
    parts = []
    for name in names:
        text = name.decode("utf-8", "surrogateescape")
        parts.append(entry(text, b"1", form=tarfile.GNU_FORMAT))
    return b"".join(parts) + END


def abused_headers() -> dict[str, bytes]:
    """Extension headers that declare far more than any name needs, with nothing behind them or with very much."""
    gnu = entry("x", type=b"L")
    pax = entry("x", type=b"x")
    real = b"1048600 comment=" + b"x" * (1048600 - len(b"1048600 comment=") - 1) + b"\n"
    return {
        "GNU name of a gigabyte": patched(gnu, 124, b"%011o\0" % 10**9),
        "GNU name of 2**56 bytes": patched(gnu, 124, b"\x80" + bytes(3) + b"\1" + bytes(7)),
        "PAX records of a terabyte": patched(pax, 124, b"\x80" + struct.pack(">3xQ", 10**12)),
        "200 MB of real records": b"".join(
            patched(pax, 124, b"%011o\0" % len(real)) + real + bytes(-len(real) % 512) for _ in range(200)
        ),
    }
