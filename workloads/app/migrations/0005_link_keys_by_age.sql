-- no-transaction
-- Finds what a purge removes.
CREATE INDEX CONCURRENTLY link_keys_by_age ON link_keys (created_at);
