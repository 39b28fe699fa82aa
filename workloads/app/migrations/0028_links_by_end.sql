-- no-transaction
-- Finds the links that have expired since a moment, whether their destination was removed since then or not.
CREATE INDEX CONCURRENTLY links_by_end ON links (expires_at, code)
    WHERE expires_at IS NOT NULL AND disabled_as IS DISTINCT FROM 'deleted';
