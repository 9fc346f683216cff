"""Forks and spawned processes: connections, locks and what is known of hosts belong to one process."""

import multiprocessing
import os
import signal
import threading
import warnings
from collections.abc import Callable

from tests.servers.faulty import Behaviour, Conversation, FaultyServer, Reply, says
from wds_tools.sources.http import HttpFile, HttpStream, close_idle
from wds_tools.sources.options import Remote

CONTENT = bytes(range(256)) * 400


def read(file: HttpFile, offset: int = 0, length: int = 100) -> bytes:
    buffer = bytearray(length)
    file.read_into(offset, memoryview(buffer))
    return bytes(buffer)


def forked(run: Callable[[], bool]) -> int:
    """Start a child that runs this and exits with 0 for True; gives its number."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads and forks: what is tested here
        child = os.fork()
    if child:
        return child
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(60)  # a child that hangs shall fail the test, not outlive it
    status = 1
    try:
        status = 0 if run() else 2
    finally:
        os._exit(status)


def status_of(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_fork_amid_the_reads_of_other_threads_disturbs_neither_side() -> None:
    came, go_on = threading.Semaphore(0), threading.Event()

    def hold(conversation: Conversation, reply: Reply) -> None:
        came.release()
        assert go_on.wait(60)
        conversation.send(reply)

    with FaultyServer({"/x.tar": CONTENT, "/y.tar": CONTENT}, routes={"/held": Behaviour(deliver=hold)}) as server:
        server.put("/held", CONTENT)
        remote = Remote(in_flight=2, stall_s=100)
        held, free = HttpFile(server.url("/held"), remote=remote), HttpFile(server.url("/x.tar"), remote=remote)
        results: list[bytes] = []
        threads = [threading.Thread(target=lambda: results.append(read(held, 100))) for _ in range(2)]
        for thread in threads:
            thread.start()
        for _ in threads:
            assert came.acquire(timeout=60)  # both places of this host are taken now, in this process
        child = forked(lambda: read(free, 300) == CONTENT[300:400])
        assert status_of(child) == 0
        go_on.set()
        for thread in threads:
            thread.join()
        assert results == [CONTENT[100:200]] * 2
        held.close()
        free.close()


def test_a_stream_that_the_parent_has_begun_is_begun_anew_by_a_child_that_makes_its_own() -> None:
    with FaultyServer({"/x.tar": CONTENT}) as server, HttpStream(server.url("/x.tar")) as stream:
        buffer = bytearray(len(CONTENT))
        done = stream.readinto(memoryview(buffer)[:1000])

        def child_reads() -> bool:
            with HttpStream(server.url("/x.tar")) as own:
                return own.readinto(memoryview(bytearray(10))) == 10

        assert status_of(forked(child_reads)) == 0
        while count := stream.readinto(memoryview(buffer)[done:]):
            done += count
        assert buffer == CONTENT


def test_children_do_not_keep_their_parents_connections_open() -> None:
    gone = threading.Semaphore(0)

    def answer(conversation: Conversation, reply: Reply) -> None:
        conversation.send(reply, upto=100)
        conversation.await_end()
        gone.release()

    let_go_read, let_go_write = os.pipe()
    with FaultyServer({"/x.tar": CONTENT}, then=Behaviour(deliver=answer)) as server:
        with HttpFile(server.url("/x.tar")) as file, HttpStream(server.url("/x.tar")) as in_use:
            in_use.readinto(memoryview(bytearray(10)))
            read(file)  # over another connection, which is idle then
            child = forked(lambda: os.read(let_go_read, 1) == b"!")
        close_idle()
        both = [gone.acquire(timeout=30) for _ in ("idle", "in use")]  # while the child still lives
        os.write(let_go_write, b"!")
        assert status_of(child) == 0
        assert both == [True, True]
    os.close(let_go_read)
    os.close(let_go_write)


def test_a_child_knows_nothing_of_what_hosts_told_its_parent() -> None:
    with FaultyServer({"/x.tar": CONTENT}, [Behaviour(says(429))]) as server:
        with HttpFile(server.url("/x.tar")) as file:
            read(file)
            assert file.limited
            assert status_of(forked(lambda: not file.limited)) == 0
            assert file.limited


def _read_in_child(file: HttpFile, answers: "multiprocessing.SimpleQueue[bytes]") -> None:
    with file:
        answers.put(read(file, 500))


def test_files_go_into_spawned_processes() -> None:
    context = multiprocessing.get_context("spawn")
    with FaultyServer({"/x.tar": CONTENT}) as server, HttpFile(server.url("/x.tar"), size=len(CONTENT)) as file:
        assert read(file, 500) == CONTENT[500:600]
        answers = context.SimpleQueue()
        process = context.Process(target=_read_in_child, args=(file, answers))
        process.start()
        assert answers.get() == CONTENT[500:600]
        process.join()
        assert process.exitcode == 0
        answers.close()
        process.close()
