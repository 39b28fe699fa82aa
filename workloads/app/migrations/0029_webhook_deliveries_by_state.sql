-- no-transaction
-- Finds the messages to a receiver by their state. The states stand in the order in which messages go if there are too many:
-- given up, failing, pending.
CREATE INDEX CONCURRENTLY webhook_deliveries_by_state ON webhook_deliveries
    (receiver, (CASE WHEN given_up_at IS NOT NULL THEN 0 WHEN attempts > 0 THEN 1 ELSE 2 END), id);
