"""The commands of `wds` that this package owns, one file each; `wds_tools.cli` loads them on first use."""
