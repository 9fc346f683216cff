"""Where the parts of a run are worked off: here, one after the other, or on the machines of an existing cluster.

    local    in this process
    ray      as tasks of Ray (`pip install 'shardstream[ray]'`); imported when it is asked for

An engine is a generator of outcomes, in any order. It is told of no file: what a part is and when it is whole is for
`shardwriter.part`, what comes of all of them for `shardwriter.joint`. Closing the generator ends what still runs, which
keeps what it has committed.
"""

from shardwriter.engines.choose import ENGINES, EngineName, engine_named, pack_parts

__all__ = ["ENGINES", "EngineName", "engine_named", "pack_parts"]
