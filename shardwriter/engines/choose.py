"""A run in parts from the beginning to the end, on whichever engine: refuse, work off, join."""

from __future__ import annotations

import functools
from contextlib import closing
from dataclasses import replace
from typing import Literal, TypeAlias, get_args

from shardwriter.engines import local
from shardwriter.engines.base import Engine, Outcome
from shardwriter.joint import Joint
from shardwriter.summary import PackSummary
from shardwriter.task import Task
from shardwriter.watch import Watch
from wds_tools.errors import ShardstreamError, TooManyFailuresError, UsageError, counted

__all__ = ["ENGINES", "Engine", "EngineName", "engine_named", "pack_parts"]

EngineName: TypeAlias = Literal["local", "ray"]

ENGINES: tuple[str, ...] = get_args(EngineName)


def engine_named(name: str, address: str | None = None) -> Engine:
    """The engine of that name.

    Args:
        name: "local" or "ray".
        address: of the cluster; for "local" there is none.

    Raises:
        UsageError: no such engine, it is not installed, or an address where there is none.
    """
    if name not in ENGINES:
        raise UsageError(f"engine is {name!r}, expected one of {', '.join(map(repr, ENGINES))}")
    if name == "local":
        if address is not None:
            raise UsageError("the local engine has no address", cure="Leave address away, or pass engine='ray'.")
        return local.run_parts
    try:
        from shardwriter.engines.ray import run_parts as on_ray
    except ImportError as error:
        raise UsageError(
            "the engine 'ray' needs Ray, which is not installed here", cure="pip install 'shardstream[ray]'"
        ) from error
    return functools.partial(on_ray, address=address)


def pack_parts(task: Task, parts: int, engine: Engine, watch: Watch) -> PackSummary:
    """Do what is missing of a run in parts, and join them.

    Raises:
        TargetError: another dataset lies there, or the beginnings of another run.
        ShardstreamError: a part could not be packed; the message names it. What is whole stays.
    """
    joint = Joint(task, parts)
    with joint.held():
        made = _worked_off(replace(task, overwrite=False), parts, engine, watch)
        return joint.join(made)


def _worked_off(task: Task, parts: int, engine: Engine, watch: Watch) -> dict[int, PackSummary]:
    """The summaries of all parts."""
    made: dict[int, PackSummary] = {}
    errors: dict[int, Exception] = {}
    with closing(engine(task, parts, watch)) as outcomes:
        for outcome in outcomes:
            if outcome.summary is not None:
                made[outcome.part] = outcome.summary
                watch.told(_words(made, parts))
                _check_failures(task, made)
            else:
                errors[outcome.part] = _error(outcome)
                if isinstance(outcome.error, TooManyFailuresError):
                    break  # the parts together have failed more often still
    if errors:
        raise _named(errors, made, parts)
    return made


def _words(made: dict[int, PackSummary], parts: int) -> str:
    failed = sum(sum(summary.failed.values()) for summary in made.values())
    return f"{len(made):,} of {counted(parts, 'part')}" + (f", {failed:,} not packed" if failed else "")


def _check_failures(task: Task, made: dict[int, PackSummary]) -> None:
    failed = sum(sum(summary.failed.values()) for summary in made.values())
    if task.max_failures is not None and failed > task.max_failures:
        reports = sorted(str(summary.failures) for summary in made.values() if summary.failures is not None)
        raise TooManyFailuresError(
            f"{counted(failed, 'sample')} could not be packed, and max_failures is {task.max_failures:,}",
            cure=f"See {reports[0]}{' and others' * (len(reports) > 1)} for the reasons; mend the input, or allow "
            "more. The same call goes on where this one ended.",
        )


def _error(outcome: Outcome) -> Exception:
    return outcome.error or RuntimeError(f"part {outcome.part} ended without a word")


def _named(errors: dict[int, Exception], made: dict[int, PackSummary], parts: int) -> Exception:
    """The first error, with the parts that failed and how to go on."""
    first = min(errors)
    error = errors[first]
    which = f"part {first} of {parts}"
    others = f"; {counted(len(errors) - 1, 'other part')} failed too" if len(errors) > 1 else ""
    go_on = f"The same call goes on where this one ended: {counted(len(made), 'part')} of {parts:,} are whole."
    if isinstance(error, ShardstreamError):
        error.problem = f"{which}: {error.problem}{others}"
        error.cure = f"{error.cure.rstrip('.')}. {go_on}" if error.cure else go_on
    else:
        error.add_note(f"This was in {which}{others}. {go_on}")
    return error
