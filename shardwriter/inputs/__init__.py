"""What can be packed: inputs, each a sequence of samples that are made when they are asked for. See `base`."""

from shardwriter.inputs.base import BaseInput, Input
from shardwriter.inputs.folders import ClassFolders, check_folder, class_folders, empty_classes

__all__ = ["BaseInput", "ClassFolders", "Input", "check_folder", "class_folders", "empty_classes"]
