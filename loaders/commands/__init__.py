"""The commands of `wds` that run a loader; `wds_tools.cli` loads them on first use."""
