"""What a walk over a shard saw besides samples: counts for `wds info` and `wds verify`, and one line for the log."""

from __future__ import annotations

from dataclasses import dataclass, field

from wds_tools.errors import counted, shown

__all__ = ["ShardNotes"]

_EXAMPLES = 3


@dataclass
class ShardNotes:
    """Filled by the walk that it is given to; counts are whole only when that walk came to the shard's end."""

    samples: int = 0
    last_key: str | None = None
    """Of the last whole sample."""
    members: int = 0
    """Entries of all kinds, those counted below too."""
    folders: int = 0
    links: int = 0
    """Hard and symbolic links under names that make a sample."""
    sparse: int = 0
    metadata: int = 0
    """`__name__` members and what lies in `__name__/`."""
    litter: int = 0
    """What macOS archivers add: `._name` and `__MACOSX/`."""
    nameless: int = 0
    """Files whose names make no sample."""
    nameless_examples: list[str] = field(default_factory=list)
    devices: int = 0
    """Devices, FIFOs, volume labels and other entries that are no files."""
    archives: int = 1
    """More than one where archives were put one behind the other."""
    lone_zero_blocks: int = 0
    """Zero blocks between members, where an archive ends with two."""
    trailing_bytes: int = 0
    """Bytes after the end of the archive that are neither zeros nor another archive."""
    unterminated: bool = False
    """The shard ends at a member's end, without the two zero blocks."""
    refused: int = 0
    """Samples that were left out because of an error."""
    first_fault: str | None = None

    def saw_fault(self, fault: Exception) -> None:
        self.refused += 1
        self.first_fault = self.first_fault or str(fault)

    def saw_nameless(self, name: str) -> None:
        self.nameless += 1
        if len(self.nameless_examples) < _EXAMPLES:
            self.nameless_examples.append(name)

    def warnings(self) -> list[str]:
        """What a user should know, a phrase each; empty for a sound shard."""
        names = ", ".join(map(shown, self.nameless_examples))
        more = ", ..." if self.nameless > len(self.nameless_examples) else ""
        nameless = counted(self.nameless, "file whose name makes no sample", "files whose names make no sample")
        phrases = (
            (self.nameless, f"{nameless} ({names}{more})"),
            (self.devices, counted(self.devices, "entry that is no file", "entries that are no files")),
            (self.refused, f"{counted(self.refused, 'sample')} left out (the first: {self.first_fault})"),
            (
                self.archives > 1,
                f"{self.archives} archives one behind the other, all read; other readers stop after the first",
            ),
            (
                self.lone_zero_blocks,
                f"{counted(self.lone_zero_blocks, 'lone zero block')} between members, where other readers stop",
            ),
            (
                self.trailing_bytes,
                f"{counted(self.trailing_bytes, 'byte')} of something else after the end of the archive",
            ),
            (self.unterminated, "no end of archive (two zero blocks): it may have been cut between two members"),
        )
        return [phrase for holds, phrase in phrases if holds]
