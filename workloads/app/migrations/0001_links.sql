-- Links are immutable: rows are inserted once, and only ever taken down or emptied into a tombstone.
CREATE TABLE links (
    -- Bytewise comparison: codes are case-sensitive and need no language.
    code text COLLATE "C" PRIMARY KEY CHECK (code ~ '^[A-Za-z0-9_-]{1,64}$'),
    -- NULL in a tombstone: the destination is gone and the code is never given out again. A link is taken down by moving
    -- its destination from url to disabled_url.
    url text CHECK (octet_length(url) <= 2048),
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,
    -- The client that created the link; NULL when it had no key.
    created_by text,
    -- The host of the destination: ASCII, in lower case, without a dot at the end.
    host text COLLATE "C",
    -- The destination of a disabled link.
    disabled_url text,
    disabled_at timestamptz,
    -- gone, legal (for legal reasons) or deleted (for ever).
    disabled_as text,
    -- The client that did it.
    disabled_by text,
    -- Why, for the operators of the service.
    reason text,
    -- Why, for everybody who follows the link.
    notice text,
    -- When a replica has to remove the link from the cache once more; NULL when none has to.
    purge_due_at timestamptz,
    CONSTRAINT links_have_a_destination_unless_gone
        CHECK (url IS NOT NULL OR expires_at IS NOT NULL OR disabled_at IS NOT NULL),
    -- What is NULL violates nothing.
    CONSTRAINT links_are_disabled_in_a_known_way CHECK (
        (disabled_as IS NULL) = (disabled_at IS NULL)
        AND disabled_as IN ('gone', 'legal', 'deleted')
        AND octet_length(disabled_url) <= 2048
    )
);

-- Finds the oldest lasting link of a URL. The hash keeps long URLs out of the index.
CREATE INDEX links_lasting_by_url ON links (hashtextextended(url, 0), created_at) WHERE expires_at IS NULL;

-- Finds what a purge turns into tombstones.
CREATE INDEX links_by_expiry ON links (expires_at) WHERE expires_at IS NOT NULL AND url IS NOT NULL;

-- Finds the links to a host, in order of their age.
CREATE INDEX links_by_host ON links (host, created_at, code) WHERE host IS NOT NULL;

-- Finds what has to be removed from the cache once more.
CREATE INDEX links_by_purge ON links (purge_due_at) WHERE purge_due_at IS NOT NULL;

-- Finds the disabled links, in order of the time at which they were.
CREATE INDEX links_disabled ON links (disabled_at) WHERE disabled_at IS NOT NULL;

-- Requests for a link with an Idempotency-Key header: the first one decides which link the key stands for.
CREATE TABLE link_keys (
    key text COLLATE "C" PRIMARY KEY,
    -- Of the request's body, because a key stands for one request only.
    body_sha256 bytea NOT NULL,
    -- NULL until the link exists.
    code text COLLATE "C",
    created_at timestamptz NOT NULL DEFAULT now()
);
