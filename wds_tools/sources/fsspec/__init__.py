"""Shards in object stores, hubs and other places that fsspec opens: s3, gs, az, hf, memory and many more.

`file` reads parts of an object, `places` asks what lies where and puts whole objects there. `systems` keeps one file
system a process for each scheme and its options, `asking` tries again what may pass, and `refusals` turns what the
file systems raise into our errors: nothing else here knows them.

fsspec's own caches are not used, neither of bytes nor of listings: a cache that nobody checks would hide that an object
was replaced.
"""

from wds_tools.sources.fsspec.file import FsspecFile, open_fsspec
from wds_tools.sources.fsspec.places import exists, glob, names, put, remove, size, sizes

__all__ = ["FsspecFile", "exists", "glob", "names", "open_fsspec", "put", "remove", "size", "sizes"]
