"""How each kind of field turns into bytes and back: one module a group, gathered in the table of `wds_tools.codec`."""
