-- no-transaction
-- Finds the transfers of links from a client and to it.
CREATE INDEX CONCURRENTLY audit_log_by_transfer ON audit_log USING gin ((ARRAY[detail->>'from', detail->>'to'])) WHERE action = 'link_transferred';
