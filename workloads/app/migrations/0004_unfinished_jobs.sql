-- Finds jobs whose worker is gone, for a purge.
CREATE INDEX jobs_unfinished ON jobs (started_at) WHERE finished_at IS NULL;
