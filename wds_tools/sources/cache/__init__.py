"""Remote bytes kept on disk: each fetched once per machine, checked, within a limit. `disk` says how it is used."""

from wds_tools.sources.cache.disk import DiskCache
from wds_tools.sources.cache.file import CachedFile
from wds_tools.sources.cache.names import dataset_of

__all__ = ["CachedFile", "DiskCache", "dataset_of"]
