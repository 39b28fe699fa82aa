"""The keys of the stories: their clients, and what each may do. Run with a folder, it writes them there as a Secret has them."""

import sys
from pathlib import Path

# The key and the scopes of each client.
KEYS = {
    "boss": ("boss-key-0123456789abcdef0123456789", "admin jobs"),
    "jane": ("jane-key-0123456789abcdef0123456789", "links:own"),
    "shop": ("shop-key-0123456789abcdef0123456789", "shorten"),
}

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for client, (key, scopes) in KEYS.items():
        (folder / client).write_text(key)
        (folder / f"{client}.scopes").write_text(scopes)
