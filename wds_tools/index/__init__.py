"""Where each sample of a shard lies: listings, mapped offsets, foreign sidecars, scans and their cache."""
