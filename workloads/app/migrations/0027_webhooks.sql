-- The receivers of webhooks, as `app migrate` finds them in its settings.
CREATE TABLE webhook_receivers (
    name text COLLATE "C" PRIMARY KEY,
    url text NOT NULL,
    events text[] NOT NULL,
    last_success_at timestamptz,
    -- The last link whose expiry was announced, by the order of links_by_end. What expired before is not announced.
    expired_at timestamptz NOT NULL DEFAULT now(),
    expired_code text COLLATE "C" NOT NULL DEFAULT ''
);

-- Events that a receiver does not have yet. A row has no destination and no person: `app webhooks` builds the message from
-- the link as it is then. A delivered row goes.
CREATE TABLE webhook_deliveries (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- The identity of the message, the same at every attempt. Numbers repeat after a database was restored.
    message_id uuid NOT NULL DEFAULT gen_random_uuid(),
    -- No foreign key: every event would lock the row of its receiver. What is left of a receiver that is gone is removed.
    receiver text COLLATE "C" NOT NULL,
    event text COLLATE "C" NOT NULL,
    code text COLLATE "C" NOT NULL,
    -- The time of the event.
    at timestamptz NOT NULL DEFAULT now(),
    -- The attempts that have failed.
    attempts integer NOT NULL DEFAULT 0,
    -- The time of the next attempt. During an attempt it is the end of the lease.
    next_at timestamptz NOT NULL DEFAULT now(),
    -- Why the last attempt failed: the status of the answer, or else a word.
    last_status integer,
    last_error text,
    -- The time after the last attempt; NULL while there are more.
    given_up_at timestamptz
);

-- Finds what is due.
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (receiver, next_at) WHERE given_up_at IS NULL;

-- Finds what a purge removes.
CREATE INDEX webhook_deliveries_given_up ON webhook_deliveries (given_up_at) WHERE given_up_at IS NOT NULL;
CREATE INDEX webhook_deliveries_by_age ON webhook_deliveries (at);

-- Every new link, whichever way it came: one statement for all rows of the statement that inserts them.
CREATE FUNCTION announce_created_links() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO webhook_deliveries (receiver, event, code)
    SELECT webhook_receivers.name, 'link.created', created.code FROM webhook_receivers, created
    WHERE 'link.created' = ANY (webhook_receivers.events);
    RETURN NULL;
END
$$;

CREATE TRIGGER announce_created_links AFTER INSERT ON links REFERENCING NEW TABLE AS created
    FOR EACH STATEMENT EXECUTE FUNCTION announce_created_links();

CREATE FUNCTION announce_takedown() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO webhook_deliveries (receiver, event, code)
    SELECT name, TG_ARGV[0], NEW.code FROM webhook_receivers WHERE TG_ARGV[0] = ANY (events);
    RETURN NULL;
END
$$;

-- For each row, because only this kind has a condition that costs other changes nothing. These changes are few. One takedown
-- that replaces another one is no news.
CREATE TRIGGER announce_disabled_link AFTER UPDATE OF disabled_as ON links FOR EACH ROW
    WHEN (OLD.disabled_as IS NULL AND NEW.disabled_as IN ('gone', 'legal'))
    EXECUTE FUNCTION announce_takedown('link.disabled');

CREATE TRIGGER announce_deleted_link AFTER UPDATE OF disabled_as ON links FOR EACH ROW
    WHEN (OLD.disabled_as IS DISTINCT FROM NEW.disabled_as AND NEW.disabled_as = 'deleted')
    EXECUTE FUNCTION announce_takedown('link.deleted');
