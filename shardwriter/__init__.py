"""How shards come to be: encoding, numbering, all-or-nothing commit, packing."""
