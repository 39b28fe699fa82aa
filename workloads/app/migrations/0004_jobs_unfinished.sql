-- no-transaction
-- Finds jobs whose worker is gone, for a purge.
CREATE INDEX CONCURRENTLY jobs_unfinished ON jobs (started_at) WHERE finished_at IS NULL;
