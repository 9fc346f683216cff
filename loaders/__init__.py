"""In what order and how fast samples reach training: plan, read, decode, batch, resume.

loaders.ShardLoader          numpy batches
loaders.torch.ShardLoader    torch batches
loaders.StreamLoader         batches from what cannot be indexed: compressed shards, commands, standard input
loaders.samples              raw samples, one after the other
loaders.open                 random access
loaders.mix                  several datasets as one, in stated proportions
loaders.balanced             one dataset, rare classes more often
loaders.bench                how fast a loader is, where its time goes, what sets the pace
loaders.Trace                what a loader's threads do, span by span
"""

from loaders.balance import balanced
from loaders.bench import bench
from loaders.crops import CenterCrop, Mask, RandomResizedCrop, Resize
from loaders.decoded.options import DecodedCache
from loaders.loader import ShardLoader
from loaders.mix import mix
from loaders.random_access import open
from loaders.raw import samples
from loaders.reading import Reading
from loaders.stream import StreamLoader
from loaders.trace import Trace
from wds_tools.pictures.options import Pictures
from wds_tools.sources.options import HeaderFile, Remote

__all__ = [
    "CenterCrop",
    "DecodedCache",
    "HeaderFile",
    "Mask",
    "Pictures",
    "RandomResizedCrop",
    "Reading",
    "Remote",
    "Resize",
    "ShardLoader",
    "StreamLoader",
    "Trace",
    "balanced",
    "bench",
    "mix",
    "open",
    "samples",
]
