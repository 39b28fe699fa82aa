-- Labels last as long as the destination, which they describe, and clicks until the link is deleted, whichever version of
-- the app ends them.
CREATE FUNCTION empty_link() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM link_labels WHERE code = NEW.code;
    DELETE FROM link_tags WHERE code = NEW.code;
    DELETE FROM link_title_words WHERE code = NEW.code;
    IF NEW.disabled_as = 'deleted' THEN
        -- A batch of clicks that has found the link before would bring its counts back. The lock waits for the batches
        -- that are being added, and keeps others away until the link is deleted.
        LOCK TABLE click_batches IN SHARE MODE;
        DELETE FROM clicks WHERE code = NEW.code;
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER empty_link AFTER UPDATE OF url, disabled_url ON links FOR EACH ROW
    WHEN (NEW.url IS NULL AND NEW.disabled_url IS NULL) EXECUTE FUNCTION empty_link();
