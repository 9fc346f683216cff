"""What can be packed: inputs, each a sequence of samples that are made when they are asked for, from any thread.

    class_folders     one folder a class, pictures in it at any depth
    flat_folder       files that belong together by name: x.jpg, x.txt, x.json, x.cls
    manifest_file     a table with a row a sample: CSV, TSV, JSON lines, Parquet
    pattern_files     one file a field by pattern: pairs and triples of .pt or .npy files
    array_file        one .npy array, its first axis counting the samples, and labels
    open_shards       existing shards: merged, filtered, fields chosen
    tfrecord_files    TFRecord files of tf.train.Example
    recordio_files    MXNet RecordIO files of pictures
    from_iterable     any Python iterable of samples
    torch_file        .pt files that hold many samples; in `shardwriter.inputs.torch`, which imports torch

All are `Input`s, which `pack` takes. `BaseInput` is what to derive one of your own from.
"""

from shardwriter.inputs.array import ArrayFile, array_file
from shardwriter.inputs.base import BaseInput, Input
from shardwriter.inputs.flat import FlatFolder, flat_folder
from shardwriter.inputs.folders import ClassFolders, class_folders
from shardwriter.inputs.iterable import Iterated, Sequenced, from_iterable
from shardwriter.inputs.manifest import Manifest, manifest_file
from shardwriter.inputs.pattern import PatternFiles, pattern_files
from shardwriter.inputs.recordio import RecordIO, recordio_files
from shardwriter.inputs.shards import Shards, open_shards
from shardwriter.inputs.tfrecord import TFRecords, tfrecord_files

__all__ = [
    "ArrayFile",
    "BaseInput",
    "ClassFolders",
    "FlatFolder",
    "Input",
    "Iterated",
    "Manifest",
    "PatternFiles",
    "RecordIO",
    "Sequenced",
    "Shards",
    "TFRecords",
    "array_file",
    "class_folders",
    "flat_folder",
    "from_iterable",
    "manifest_file",
    "open_shards",
    "pattern_files",
    "recordio_files",
    "tfrecord_files",
]
