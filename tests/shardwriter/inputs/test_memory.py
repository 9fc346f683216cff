import gc
import pickle
import threading

import numpy as np

from shardwriter.encode import Encoder
from shardwriter.inputs.memory import Memory


def address(view: memoryview) -> int:
    return int(np.frombuffer(view, np.uint8).ctypes.data)


def test_a_block_is_used_again_when_the_last_view_on_it_is_gone() -> None:
    memory = Memory(1000)
    first = memory.take(600).data
    place, part = address(first), first[10:20]
    other = memory.take(1000)
    assert address(other.data) != place
    del first
    gc.collect()
    assert address(memory.take(1000).data) not in {place, address(other.data)}
    del part
    assert address(memory.take(200).data) == place


def test_what_numpy_makes_of_a_view_keeps_it_too() -> None:
    memory = Memory(1000)
    taken = memory.take(1000)
    place, array = address(taken.data), np.asarray(taken)[5:9]
    del taken
    assert address(memory.take(10).data) != place
    assert array.shape == (4,)


def test_more_than_a_block_is_memory_of_its_own() -> None:
    memory = Memory(10)
    assert memory.take(11).shape == (11,)
    assert memory.take(0).shape == (0,)


def test_threads_never_share_a_block() -> None:
    memory = Memory(64)
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(2000):
            taken = memory.take(64)
            taken[:] = number
            if (taken != number).any():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_was_filled_and_closed_is_not_copied_by_the_encoder() -> None:
    taken = Memory(100).take(50)
    taken[:] = 7
    assert Encoder().encode({"__key__": "a", "bin": taken.data}).values[0] is not taken.data
    taken.flags.writeable = False
    view = taken.data[:20]
    assert Encoder().encode({"__key__": "a", "bin": view}).values[0] is view


def test_it_goes_to_other_processes_without_its_blocks() -> None:
    memory = Memory(77)
    memory.take(5)
    assert pickle.loads(pickle.dumps(memory)).take(77).shape == (77,)
