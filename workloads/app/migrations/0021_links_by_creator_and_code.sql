-- no-transaction
-- Finds the links of a client, in the order of their codes.
CREATE INDEX CONCURRENTLY links_by_creator_and_code ON links (created_by, code) WHERE created_by IS NOT NULL;
