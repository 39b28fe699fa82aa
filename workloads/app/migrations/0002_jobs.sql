-- The ledger of the jobs: one row per message, written by the workers. A message is delivered at least once, and a row
-- that is done makes every further delivery a duplicate.
CREATE TABLE jobs (
    message_id uuid PRIMARY KEY,
    -- As the client names it; empty when it names none.
    task text NOT NULL,
    -- The client's own identifier: data, never an identity.
    client_id text,
    -- The job as it was sent, kept by the default task. Not jsonb, which cannot hold every JSON text.
    payload json,
    state text NOT NULL CHECK (state IN ('running', 'done', 'failed')),
    -- Deliveries that were begun.
    attempts integer NOT NULL DEFAULT 1 CHECK (attempts > 0),
    -- When the first attempt began.
    created_at timestamptz NOT NULL DEFAULT now(),
    -- When the last one did.
    started_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    -- Why the last attempt failed.
    error text,
    CONSTRAINT jobs_end_when_they_are_not_running CHECK ((state = 'running') = (finished_at IS NULL)),
    CONSTRAINT jobs_fail_for_a_reason CHECK ((state = 'failed') = (error IS NOT NULL))
);

-- Finds what a purge removes.
CREATE INDEX jobs_by_end ON jobs (finished_at) WHERE finished_at IS NOT NULL;

-- Requests with an Idempotency-Key header: the first one decides which job the key stands for.
CREATE TABLE job_keys (
    key text COLLATE "C" PRIMARY KEY,
    -- Of the request's body, because a key stands for one request only.
    body_sha256 bytea NOT NULL,
    message_id uuid NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- NULL until the broker confirmed the job: a repeated request then publishes it again, under the same identity.
    enqueued_at timestamptz
);

CREATE INDEX job_keys_by_age ON job_keys (created_at);
