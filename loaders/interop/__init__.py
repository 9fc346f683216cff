"""For code that is written for webdataset: our order under their pipelines, and their options for our loader.

    wds.DataPipeline(source(urls), wds.decode("rgb8"), wds.to_tuple("jpg;png", "cls"), wds.batched(64))
    loader(urls, batch_size=64, shuffle=1000, decode="rgb8", to_tuple="jpg;png cls")

The first keeps a pipeline and changes what it reads: each sample once, a real shuffle, any number of ranks and workers,
shards fewer than those or not. The second replaces the pipeline, and is what is fast: pictures are decoded in threads,
straight into the batch. docs/migrating.md has more of their lines beside ours.
"""

from loaders.interop.options import loader
from loaders.interop.source import Source, source

__all__ = ["Source", "loader", "source"]
