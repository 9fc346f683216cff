"""The tar format: blocks, members, where bytes come from, links, compression, and the writer's side of it."""

from wds_tools.tar.notes import ShardNotes
from wds_tools.tar.walk import Kind, Member, walk, walk_source, walk_stream
from wds_tools.tar.write import END, member_header, padding

__all__ = ["END", "Kind", "Member", "ShardNotes", "member_header", "padding", "walk", "walk_source", "walk_stream"]
