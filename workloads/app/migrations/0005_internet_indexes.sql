-- Indexes on the links that were taken down. They are a migration of their own: building them keeps new links waiting,
-- and with the new columns in the same transaction it would keep redirects waiting as well.

-- Finds the links to a host, in order of their age.
CREATE INDEX links_by_host ON links (host, created_at, code) WHERE host IS NOT NULL;

-- Finds what has to be removed from the cache once more.
CREATE INDEX links_by_purge ON links (purge_due_at) WHERE purge_due_at IS NOT NULL;

-- Finds the disabled links, in order of the time at which they were.
CREATE INDEX links_disabled ON links (disabled_at) WHERE disabled_at IS NOT NULL;
