-- no-transaction
-- Finds the jobs of a client with a key.
CREATE INDEX CONCURRENTLY jobs_by_client ON jobs (origin, message_id) WHERE origin LIKE 'key:%';
