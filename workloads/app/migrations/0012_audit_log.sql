-- Changes by management: who made which, when and why. A link's is written in the transaction of the change, a dead
-- letter's before the letter leaves its queue.
CREATE TABLE audit_log (
    -- In the order of the changes, but for those of the same moment.
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT now(),
    -- The client, or pod/ and the pod in which a program was run.
    actor text COLLATE "C" NOT NULL,
    action text NOT NULL,
    -- The code of the link, or the identifier of the job; NULL for a message that never was a job.
    subject text COLLATE "C",
    reason text,
    -- A JSON object with what the action alone does not say. Never a destination: that of a deleted link is gone.
    detail json
);

-- Finds what was done to a link or a job, the latest first.
CREATE INDEX audit_log_by_subject ON audit_log (subject, id);

-- Finds what a client did, the latest first.
CREATE INDEX audit_log_by_actor ON audit_log (actor, id);

-- Finds what a purge removes.
CREATE INDEX audit_log_by_age ON audit_log (at);
