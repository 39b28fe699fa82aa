-- True if the destination is a template, which the further path of a request fills.
ALTER TABLE links ADD COLUMN is_template boolean NOT NULL DEFAULT false;
