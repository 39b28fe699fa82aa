"""The mark of a picture (PNG) that tells which page it shows.

The pixels depend on fonts and on the version of the browser. The mark does not, so it tells on every machine whether
the picture is out of date.
"""

import hashlib
import struct
import zlib

KEYWORD = b"Source"


def chunk(page):
    """Returns the part of a PNG (a `tEXt` chunk) that has the digest of a page."""
    content = b"tEXt" + KEYWORD + b"\0" + hashlib.sha256(page).hexdigest().encode()
    return struct.pack(">I", len(content) - 4) + content + struct.pack(">I", zlib.crc32(content))


def marked(png, page):
    """Returns a picture with the mark of a page, before its last chunk (`IEND`, which has 12 bytes)."""
    return png[:-12] + chunk(page) + png[-12:]


def is_of(png, page):
    """Returns true if a picture has the mark of a page."""
    return chunk(page) in png
