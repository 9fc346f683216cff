"""What became of all pictures, as Markdown tables for the docs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.odd_pictures.judge import OUTCOMES, Verdict

__all__ = ["Tried", "lines", "reason"]


class Tried(NamedTuple):
    """One picture and what became of it.

    Attributes:
        suite: whose.
        path: the file.
        form: Pillow's name of its format.
        verdicts: by decoder.
    """

    suite: str
    path: Path
    form: str
    verdicts: Mapping[str, Verdict]


def lines(tried: list[Tried]) -> Iterator[str]:
    """The tables: outcomes by decoder, pictures by suite, and why the outcome was not Pillow's."""
    names = list(tried[0].verdicts)
    yield from _table(["", *names], [[words, *_counts(tried, outcome, names)] for outcome, words in OUTCOMES.items()])
    suites = Counter(each.suite for each in tried)
    yield f"\n{len(tried):,} pictures: " + ", ".join(f"{count:,} of {suite}'s" for suite, count in suites.items()) + "."
    for outcome in ("we refuse", "we read", "differs", "broke"):
        if rows := list(_reasons(tried, outcome)):
            yield f"\n{OUTCOMES[outcome]}:\n"
            yield from _table(["why", "pictures", "such as", "decoders"], rows)


def reason(each: Tried, verdict: Verdict) -> str:
    """Why, without what differs from picture to picture, so that equal ones can be counted."""
    if "no picture of a known format" in verdict.why:
        return f"a format that is not read here ({each.form})"
    words = re.sub(r"<[^>]*>", "...", verdict.why.split(": ", 1)[-1])
    return re.sub(r"\b\d[\d,.]*", "N", words).replace("|", "/")


def _counts(tried: list[Tried], outcome: str, names: list[str]) -> list[str]:
    return [f"{sum(each.verdicts[name].outcome == outcome for each in tried):,}" for name in names]


def _reasons(tried: list[Tried], outcome: str) -> Iterator[list[str]]:
    found: dict[str, list[Tried]] = {}
    by: dict[str, dict[str, None]] = {}
    for each in tried:
        for name, verdict in each.verdicts.items():
            if verdict.outcome == outcome:
                why = reason(each, verdict)
                if each not in found.setdefault(why, []):
                    found[why].append(each)
                by.setdefault(why, {})[name] = None
    for why, which in sorted(found.items(), key=lambda item: (-len(item[1]), item[0])):
        decoders = "all" if len(by[why]) == len(tried[0].verdicts) else ", ".join(by[why])
        yield [why, str(len(which)), f"`{which[0].path.name}`", decoders]


def _table(head: list[str], rows: list[list[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield "| --- " * len(head) + "|"
    yield from (f"| {' | '.join(row)} |" for row in rows)
