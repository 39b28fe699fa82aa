-- Until when a job that runs counts as alive, if that is more than an hour after its start: a day after it returned to its queue.
ALTER TABLE jobs ADD COLUMN alive_until timestamptz;
