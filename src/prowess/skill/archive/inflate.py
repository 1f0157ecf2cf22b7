"""Unpacking deflate a piece at a time, so that a bomb costs no more than the piece in which it is noticed."""

from __future__ import annotations

import zlib

GZIP_WINDOW = 31
RAW_WINDOW = -15

_FEED = 16 * 1024


class Inflated:
    """One compressed stream at the start of `data`; `position` is where it stopped reading."""

    def __init__(self, data: memoryview, window: int) -> None:
        self.position = 0
        self._data = data
        self._stream = zlib.decompressobj(window)

    def read(self, most: int) -> bytes:
        """The next piece, of at most that many bytes; b'' at the end, `EOFError` where the stream is cut short."""
        while not self._stream.eof:
            # Small feeds: what zlib has not used yet it hands back as a copy, each time.
            feed = self._data[self.position : self.position + _FEED]
            piece = self._stream.decompress(feed, most)
            self.position += len(feed) - len(self._stream.unconsumed_tail) - len(self._stream.unused_data)
            if piece:
                return piece
            if not feed and not self._stream.eof:
                raise EOFError("it ends early")
        return b""
