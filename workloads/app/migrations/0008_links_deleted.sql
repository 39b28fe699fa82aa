-- no-transaction
-- Finds the deleted links, in the order in which they were deleted.
CREATE INDEX CONCURRENTLY links_deleted ON links (disabled_at, code) WHERE disabled_as = 'deleted';
