"""What shardstream is measured against, on the same machine in the same run. `python -m benchmarks --help`."""
