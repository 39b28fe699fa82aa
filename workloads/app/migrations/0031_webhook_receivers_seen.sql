-- The last time at which a program had the receiver in its settings.
ALTER TABLE webhook_receivers ADD COLUMN seen_at timestamptz NOT NULL DEFAULT now();
