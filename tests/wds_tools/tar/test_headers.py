from __future__ import annotations

import contextlib
import tarfile

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.wds_tools.tar.archives import entry, patched, with_checksum
from wds_tools.errors import HeaderError
from wds_tools.tar.headers import parse, parse_pax, valid_checksum

BLOCK = entry("a.jpg", b"x" * 693)[:512]


def _size_as(field: bytes) -> int:
    return parse(patched(BLOCK, 124, field), url="s.tar", offset=0).size


def test_a_plain_header_says_name_size_and_kind() -> None:
    assert parse(BLOCK, url="s.tar", offset=0) == (b"a.jpg", 693, ord("0"), b"")


def test_a_prefix_comes_before_the_name() -> None:
    name = "p" * 120 + "/" + "n" * 80
    assert parse(entry(name)[:512], url="s.tar", offset=0).name == name.encode()


def test_what_gnu_writes_in_the_place_of_a_prefix_is_none() -> None:
    gnu = patched(entry("a.jpg", form=tarfile.GNU_FORMAT), 345, b"14712345670\0")  # an access time
    assert parse(gnu, url="s.tar", offset=0).name == b"a.jpg"


@pytest.mark.parametrize(
    ("field", "size"),
    [
        (b"00000001265\0", 693),
        (b"00000001265 ", 693),
        (b"       1265\0", 693),
        (b"1265\0garbage", 693),
        (b"000000001265", 693),
        (b"\0" * 12, 0),
        (b"\x80" + (693).to_bytes(11, "big"), 693),
        (b"\x80" + (1 << 40).to_bytes(11, "big"), 1 << 40),
    ],
)
def test_sizes_are_octal_or_base_256(field: bytes, size: int) -> None:
    assert _size_as(field) == size


@pytest.mark.parametrize(
    "field",
    [
        b"\xff" * 12,
        b"\xff" + (1 << 80).to_bytes(11, "big"),
        b"\x80" + b"\xff" * 11,
        b"-0000000001\0",
        b"9999\0" + bytes(7),
        b"hello world!",
    ],
)
def test_an_absurd_size_is_an_error_that_names_the_offset(field: bytes) -> None:
    with pytest.raises(HeaderError, match="size") as caught:
        parse(patched(BLOCK, 124, field), url="s.tar", offset=1536)
    assert (caught.value.url, caught.value.offset) == ("s.tar", 1536)


@pytest.mark.parametrize("kind", b"123456")
def test_links_folders_and_devices_have_no_data(kind: int) -> None:
    assert parse(patched(BLOCK, 156, bytes([kind])), url="s.tar", offset=0).size == 0


def test_a_v7_name_that_ends_with_a_slash_is_a_folder() -> None:
    folder = with_checksum(b"a/".ljust(100, b"\0") + BLOCK[100:156] + bytes(512 - 156))
    assert parse(folder, url="s.tar", offset=0).kind == ord("5")


@given(st.integers(0, 511), st.integers(1, 255))
def test_a_changed_byte_is_seen(place: int, change: int) -> None:
    changed = bytearray(BLOCK)
    changed[place] ^= change
    still = valid_checksum(bytes(changed))
    assert not still or 148 <= place < 156  # a digit's padding may be a space or NUL


def test_checksums_over_signed_bytes_are_taken() -> None:
    block = entry("caf\u00e9.jpg")[:512]
    signed = 256 + sum(byte - 256 if byte > 127 else byte for byte in block[:148] + block[156:])
    old = block[:148] + b"%06o\0 " % signed + block[156:]
    assert not valid_checksum(old[:148] + b"%06o\0 " % (signed + 1) + old[156:])
    assert valid_checksum(old)


@pytest.mark.parametrize(
    "records", [{b"path": b"a/\xc3\xa9.jpg", b"size": b"12"}, {b"comment": b"a=b\nc"}, {b"path": b"x" * 95}, {}]
)
def test_pax_records_are_read(records: dict[bytes, bytes]) -> None:
    text = {key.decode(): value.decode() for key, value in records.items()}
    made = tarfile.TarInfo._create_pax_generic_header(text, tarfile.XHDTYPE, "utf-8")  # type: ignore[attr-defined]
    assert parse_pax(made[512:], url="s.tar", offset=0) == records


@pytest.mark.parametrize(
    "data",
    [b"x", b"5 a=b", b"9999 a=b\n", b"6 ab\n", b"5 =b\n", b"0 a=b\n", b"-6 a=b\n", b"06 a=b_", b"1_0 a=b\n\n\n"],
)
def test_pax_records_that_do_not_add_up_are_an_error(data: bytes) -> None:
    with pytest.raises(HeaderError, match="PAX record"):
        parse_pax(data, url="s.tar", offset=512)


@given(
    st.one_of(st.binary(max_size=80), st.lists(st.sampled_from([b"6 a=b\n", b"1", b" ", b"=", b"\n"])).map(b"".join))
)
@example("6\u0661 a=b\n".encode())
def test_any_records_are_read_or_an_error(data: bytes) -> None:
    with contextlib.suppress(HeaderError):
        parse_pax(data, url="s.tar", offset=0)


@given(st.binary(min_size=512, max_size=512), st.booleans())
def test_any_block_is_read_or_an_error(block: bytes, mend: bool) -> None:
    try:
        header = parse(with_checksum(block) if mend else block, url="s.tar", offset=0)
    except HeaderError:
        return
    assert header.size >= 0
