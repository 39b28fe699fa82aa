-- The identity of the data, in one row. A dump carries it along, so a database that began with a backup has that of the
-- backup, and a new one has another. By it, the backups of two databases in one place are told apart.
CREATE TABLE database_identity (id uuid NOT NULL DEFAULT gen_random_uuid());

INSERT INTO database_identity DEFAULT VALUES;
