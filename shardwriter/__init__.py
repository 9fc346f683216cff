"""How shards come to be: encoding, numbering, all-or-nothing commit, packing.

    from shardwriter import ShardWriter, pack

`ShardWriter` takes samples one by one; `pack` takes a whole input, such as a folder of class folders. `Transcode` says
what pictures shall become on the way.
"""

from shardwriter.inputs import BaseInput, ClassFolders, Input, class_folders
from shardwriter.pack import PackSummary, pack
from shardwriter.transcode import Transcode
from shardwriter.transcoder import Transcoder
from shardwriter.writer import ShardWriter

__all__ = [
    "BaseInput",
    "ClassFolders",
    "Input",
    "PackSummary",
    "ShardWriter",
    "Transcode",
    "Transcoder",
    "class_folders",
    "pack",
]
