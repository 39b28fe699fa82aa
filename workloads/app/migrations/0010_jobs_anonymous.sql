-- no-transaction
-- Finds the jobs of clients without a key that a purge removes.
CREATE INDEX CONCURRENTLY jobs_anonymous ON jobs (finished_at) WHERE origin = 'anonymous';
