-- Links that were taken down, keys of requests, and the state of work that repeats. Every change only adds or loosens:
-- the previous version reads and writes beside it.

-- Requests for a link with an Idempotency-Key header: the first one decides which link the key stands for.
CREATE TABLE link_keys (
    key text COLLATE "C" PRIMARY KEY,
    -- Of the request's body, because a key stands for one request only.
    body_sha256 bytea NOT NULL,
    -- NULL until the link exists.
    code text COLLATE "C",
    created_at timestamptz NOT NULL DEFAULT now()
);

-- Work that repeats: one replica claims each time.
CREATE TABLE schedules (
    name text PRIMARY KEY,
    ran_at timestamptz NOT NULL
);

-- How far each run of reindex is, so that a worker continues where another one stopped.
CREATE TABLE reindex_runs (
    message_id uuid PRIMARY KEY,
    collection text NOT NULL,
    phase text NOT NULL,
    -- The last document that was written.
    after_id bigint NOT NULL,
    -- The page of the store that comes next.
    page text,
    updated_at timestamptz NOT NULL DEFAULT now()
);

-- Last, because each change of this table takes its strongest lock, until the migration ends.
--
-- A link is taken down by moving its destination from url to disabled_url. The previous version takes such a row for an
-- expired link, so a link stays down during a rollout and after a rollback.
ALTER TABLE links
    -- The destination of a disabled link.
    ADD COLUMN disabled_url text,
    ADD COLUMN disabled_at timestamptz,
    -- gone, legal (for legal reasons) or deleted (for ever).
    ADD COLUMN disabled_as text,
    -- The client that did it.
    ADD COLUMN disabled_by text,
    -- Why, for the operators of the service.
    ADD COLUMN reason text,
    -- Why, for everybody who follows the link.
    ADD COLUMN notice text,
    -- The client that created the link; NULL when it had no key.
    ADD COLUMN created_by text,
    -- The host of the destination: ASCII, in lower case, without a dot at the end. NULL until it was filled in.
    ADD COLUMN host text COLLATE "C",
    -- When a replica has to remove the link from the cache once more; NULL when none has to.
    ADD COLUMN purge_due_at timestamptz;

-- NOT VALID: PostgreSQL would otherwise scan the table under the strongest lock. Older rows fulfil both checks.
ALTER TABLE links
    DROP CONSTRAINT links_only_expiring_links_become_tombstones,
    ADD CONSTRAINT links_have_a_destination_unless_gone
        CHECK (url IS NOT NULL OR expires_at IS NOT NULL OR disabled_at IS NOT NULL) NOT VALID,
    ADD CONSTRAINT links_are_disabled_in_a_known_way CHECK (
        (disabled_as IN ('gone', 'legal', 'deleted')) IS NOT FALSE
        AND (disabled_as IS NULL) = (disabled_at IS NULL)
        AND octet_length(disabled_url) <= 2048
    ) NOT VALID;
