"""What a shard and a picture are, and where they lie: names, bytes, addresses, index, pixels. No torch, no order."""

__version__ = "0.1.0"
