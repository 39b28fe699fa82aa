-- no-transaction
-- Finds the links of a client, in the order of their creation.
CREATE INDEX CONCURRENTLY links_by_creator ON links (created_by, created_at, code) WHERE created_by IS NOT NULL;
