"""The contestants of the race, one small module each; `PEERS` has them by name. See README.md in the folder above.

`PARTS` has those that take part in `scaling` only.
"""

from __future__ import annotations

from benchmarks.peers import (
    dali,
    datago,
    ffcv,
    folder,
    hf_datasets,
    limit,
    litdata,
    ours,
    overhead,
    spdl,
    streaming,
    webdataset,
)
from benchmarks.peers.peer import Peer

__all__ = ["PARTS", "PEERS"]

_MODULES = (ours, limit, folder, webdataset, dali, ffcv, spdl, litdata, streaming, hf_datasets, datago)
PEERS: dict[str, Peer] = {peer.name: peer for module in _MODULES for peer in module.PEERS}
PARTS: dict[str, Peer] = {peer.name: peer for peer in overhead.PEERS}
