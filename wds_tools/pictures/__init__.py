"""Picture bytes to pixels and back: facts, sniffing, decoding of a crop, resizing, encoding."""
