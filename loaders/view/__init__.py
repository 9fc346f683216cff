"""Looking at a dataset: a contact sheet, a page, or a server on loopback: what `wds view` does.

`viewer` reads and decodes samples for people, `choice` picks them, `facts` gathers what there is, `charts` and `parts`
draw, `sheet` makes a PNG, `page` one self-contained page of html, `live` serves pages as they are asked for.

All html is made by `wds_tools.show.markup`, which escapes by construction. The page's policy (CSP) admits one
stylesheet and one script by their hashes and nothing from anywhere else, so that even a fault there would run nothing.
"""
