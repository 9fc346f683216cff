"""What a sample looks like, for people: html that is safe whatever the data say, thumbnails, and values in a few words.

`markup` builds html that is escaped by construction, `thumbnail` makes small pictures, `values` says what a field
holds, `cards` puts them together. Used by the reprs that notebooks show and by `wds view`, so that both escape alike.
Imported on first use only.
"""
