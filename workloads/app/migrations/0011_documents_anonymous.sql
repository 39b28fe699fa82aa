-- no-transaction
-- Finds the documents of clients without a key that a purge removes.
CREATE INDEX CONCURRENTLY documents_anonymous ON documents (changed_at) WHERE origin = 'anonymous' AND vector IS NOT NULL;
