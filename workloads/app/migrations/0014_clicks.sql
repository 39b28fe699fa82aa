-- Clicks on links by UTC day: counts, and nothing about those who clicked.
CREATE TABLE clicks (
    code text COLLATE "C" NOT NULL,
    day date NOT NULL,
    people bigint NOT NULL CHECK (people >= 0),
    -- Programs, by their user agent.
    bots bigint NOT NULL CHECK (bots >= 0),
    PRIMARY KEY (code, day)
    -- Room for the next versions of a row in the same page: its counts change every few seconds.
) WITH (fillfactor = 70);

-- Finds the clicks of some days, and what a purge removes.
CREATE INDEX clicks_by_day ON clicks (day);

-- The batches of counts that were added. One whose outcome a replica does not know is sent again under the same identity.
CREATE TABLE click_batches (
    id uuid PRIMARY KEY,
    created_at timestamptz NOT NULL DEFAULT now()
);

-- Finds what a purge removes.
CREATE INDEX click_batches_by_age ON click_batches (created_at);
