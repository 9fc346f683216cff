"""Sources that cannot be indexed: compressed shards, commands (`pipe:`), standard input, read as streams.

    urls.spell ─► order.deal ─► opening ─► flow ─► buffer ─► session ─► loader
    (what)        (whose)       (bytes)    (interleaved)     (decode)   (batches)

`StreamLoader` says what it promises, which is less than `loaders.ShardLoader` does.
"""

from loaders.stream.loader import StreamLoader

__all__ = ["StreamLoader"]
