-- no-transaction
-- Finds the latest links.
CREATE INDEX CONCURRENTLY links_by_creation ON links (created_at, code);
