-- The ShortLink to which a link belongs. The row is written in the transaction that inserts the link, or that takes it over.
CREATE TABLE link_owners (
    code text COLLATE "C" PRIMARY KEY,
    -- That of the object: a later object may have the same name.
    uid text NOT NULL,
    namespace text NOT NULL,
    name text NOT NULL
);

-- A deleted link belongs to nobody. An expired one keeps its owner, so that the code is no other object's.
CREATE OR REPLACE FUNCTION empty_link() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM link_labels WHERE code = NEW.code;
    DELETE FROM link_tags WHERE code = NEW.code;
    DELETE FROM link_title_words WHERE code = NEW.code;
    IF NEW.disabled_as = 'deleted' THEN
        -- A batch of clicks that has found the link before would bring its counts back. The lock waits for the batches
        -- that are being added, and keeps others away until the link is deleted.
        LOCK TABLE click_batches IN SHARE MODE;
        DELETE FROM clicks WHERE code = NEW.code;
        DELETE FROM link_owners WHERE code = NEW.code;
    END IF;
    RETURN NULL;
END
$$;
