-- The end of the last lease: an attempt is in progress while the next one is due at this time.
ALTER TABLE webhook_deliveries ADD COLUMN leased_until timestamptz;
