"""The commands of shardwriter, a module each; wds_tools.cli knows them by import string."""
