"""`python -m tests.soak [SECONDS] [--seed N]`: train while everything fails, and print the figures as JSON.

Status 1 where a training was given something wrong, or where something grew; the seed is printed first.
"""

from __future__ import annotations

import argparse
import json
import random
import sys

from tests.soak.soak import soak

__all__ = ["main"]


def main() -> None:
    """Parse, train, tell."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description="Train while everything fails.")
    parser.add_argument("seconds", type=float, nargs="?", default=600.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    asked = parser.parse_args()
    sys.stderr.write(f"seed {asked.seed}\n")
    sys.stdout.write(json.dumps(soak(asked.seconds, asked.seed), indent=2) + "\n")


if __name__ == "__main__":
    main()
