import json
import pickle

import pytest

from shardwriter.settings import Settings
from shardwriter.transcode import Transcode
from shardwriter.transcoder import Transcoder
from wds_tools.errors import UsageError
from wds_tools.pictures.options import Pictures
from wds_tools.sample import Sample


class Grey:
    """A stage without a repr of its own."""

    def prepare(self, sample: Sample) -> Sample:
        return sample


@pytest.mark.parametrize(
    "settings",
    [
        Settings(),
        Settings(split={"val": 0.1}, dedup=True, pictures=Pictures(max_pixels=10)),
        Settings(transcode=Transcoder(Transcode(to="webp", resize=64))),
    ],
)
def test_go_through_pickle_and_describe_themselves_in_json(settings: Settings) -> None:
    again = pickle.loads(pickle.dumps(settings))
    assert again.described() == settings.described()
    assert json.loads(json.dumps(settings.described())) == settings.described()


def test_each_difference_shows_in_the_description() -> None:
    changes = [
        Settings(name="a"), Settings(max_samples=1), Settings(max_bytes=None), Settings(seed=1),
        Settings(shuffle=False), Settings(check="decode"), Settings(pictures=Pictures(max_pixels=1)),
        Settings(transcode=Grey()), Settings(transcode=Transcoder(Transcode(resize=1))), Settings(checksum=None),
        Settings(dedup=True), Settings(split={"a": 0.1}), Settings(split={"b": 0.1, "a": 0.1}),
        Settings(split={"a": 0.1, "b": 0.1}),
    ]  # fmt: skip
    described = [json.dumps(each.described(), sort_keys=True) for each in (Settings(), *changes)]
    assert len(set(described)) == len(described)


def test_the_call_names_what_was_said_and_no_address_in_memory() -> None:
    assert Settings().call() == "shardwriter.pack(source, out)"
    assert Settings(seed=3, max_bytes=None).call() == "shardwriter.pack(source, out, max_bytes=None, seed=3)"
    assert Settings(transcode=Grey()).described() == Settings(transcode=Grey()).described()
    assert "0x" not in Settings(transcode=Grey()).call()


@pytest.mark.parametrize("name", ["", "a/b", "100%", "{0..3}", "train*", "train[1]", "a?", "a::b"])
def test_names_that_cannot_be_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="name is"):
        Settings(name=name)
