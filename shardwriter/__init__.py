"""How shards come to be: encoding, numbering, all-or-nothing commit, packing.

    from shardwriter import ShardWriter, pack

`ShardWriter` takes samples one by one; `pack` takes a whole input, such as a folder of class folders.
"""

from shardwriter.inputs import BaseInput, ClassFolders, Input, class_folders
from shardwriter.pack import PackSummary, pack
from shardwriter.writer import ShardWriter

__all__ = ["BaseInput", "ClassFolders", "Input", "PackSummary", "ShardWriter", "class_folders", "pack"]
