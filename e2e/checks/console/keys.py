"""The keys of the stories: their clients, and what each may do. Run with a folder, it writes them there as a Secret has them, and
the secrets of a proxy that signs people in and of a receiver of webhooks into the folders `proxy` and `webhooks` below it."""

import json
import sys
from pathlib import Path

# The key and the scopes of each client.
KEYS = {
    "boss": ("boss-key-0123456789abcdef0123456789", "admin jobs"),
    "jane": ("jane-key-0123456789abcdef0123456789", "links:own"),
    "shop": ("shop-key-0123456789abcdef0123456789", "shorten"),
}

# What the proxy sends with every request of a person.
PROXY_SECRET = "proxy-secret-0123456789abcdef0123"
# What the groups of people may do.
GROUPS = {"editors": ["links:own"]}
# A receiver of webhooks, to which nothing is sent because its address is private.
RECEIVER = {"name": "crm", "url": "https://10.0.0.1/links", "events": ["link.created"]}

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for client, (key, scopes) in KEYS.items():
        (folder / client).write_text(key)
        (folder / f"{client}.scopes").write_text(scopes)
    (folder / "proxy").mkdir()
    (folder / "proxy" / "secret").write_text(PROXY_SECRET)
    (folder / "webhooks" / RECEIVER["name"]).mkdir(parents=True)
    (folder / "webhooks" / RECEIVER["name"] / "secret").write_text("whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
    print(json.dumps(GROUPS), json.dumps([RECEIVER]), sep="\t")
