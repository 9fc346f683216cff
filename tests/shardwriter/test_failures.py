import errno
import json

import pytest

from shardwriter.failures import Failure, failure_of
from wds_tools.errors import KeyRefusedError, TruncatedPictureError, UnavailableError


def test_an_error_becomes_a_kind_and_a_sentence() -> None:
    assert failure_of("a.jpg", PermissionError(13, "Permission denied", "a.jpg")) == Failure(
        "a.jpg", "unreadable", "Permission denied"
    )
    cut = failure_of("b.jpg", TruncatedPictureError("the picture ends early", field="jpg", cure="Get it again."))
    assert cut == Failure("b.jpg", "truncated", "the picture ends early (field jpg). Get it again.")
    assert failure_of("c", KeyRefusedError("no key")).kind == "refused"


def test_a_line_is_json_in_plain_ascii() -> None:
    line = Failure("caf\udce9.jpg", "damaged", "größe").line()
    assert line.isascii()
    assert line.endswith(b"\n")
    assert json.loads(line) == {"path": "caf\udce9.jpg", "kind": "damaged", "reason": "größe"}
    assert json.loads(Failure("a", "duplicate", "r", "b").line())["equals"] == "b"


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_what_this_process_lacks_is_no_failure_of_a_picture(number: int) -> None:
    with pytest.raises(UnavailableError, match="cannot be read"):
        failure_of("a.jpg", OSError(number, "too many"))
