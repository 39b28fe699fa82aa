-- no-transaction
-- Finds the links that a client disabled or deleted.
CREATE INDEX CONCURRENTLY links_by_disabler ON links (disabled_by, code) WHERE disabled_by IS NOT NULL;
