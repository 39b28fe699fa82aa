-- no-transaction
-- Finds the disabled links from which a purge removes the destination.
CREATE INDEX CONCURRENTLY links_disabled_by_expiry ON links (expires_at) WHERE disabled_url IS NOT NULL;
