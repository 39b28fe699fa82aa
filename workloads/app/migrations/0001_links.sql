-- Links are immutable: rows are inserted once, and only ever emptied into a tombstone.
CREATE TABLE links (
    -- Bytewise comparison: codes are case-sensitive and need no language.
    code text COLLATE "C" PRIMARY KEY CHECK (code ~ '^[A-Za-z0-9_-]{1,64}$'),
    -- NULL in a tombstone: the destination is gone and the code is never given out again.
    url text CHECK (octet_length(url) <= 2048),
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,
    CONSTRAINT links_only_expiring_links_become_tombstones CHECK (url IS NOT NULL OR expires_at IS NOT NULL)
);

-- Finds the oldest lasting link of a URL. The hash keeps long URLs out of the index.
CREATE INDEX links_lasting_by_url ON links (hashtextextended(url, 0), created_at) WHERE expires_at IS NULL;

-- Finds what a purge turns into tombstones.
CREATE INDEX links_by_expiry ON links (expires_at) WHERE expires_at IS NOT NULL AND url IS NOT NULL;
