-- no-transaction
-- Finds the documents of a client with a key.
CREATE INDEX CONCURRENTLY documents_by_client ON documents (origin, id) WHERE origin LIKE 'key:%';
