-- no-transaction
-- Finds the disabled links, in the order in which they were disabled.
CREATE INDEX CONCURRENTLY links_down ON links (disabled_at, code) WHERE disabled_as IN ('gone', 'legal');
