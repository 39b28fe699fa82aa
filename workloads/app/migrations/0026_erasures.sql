-- The names of clients that are being erased, with what takes their place. A row goes when the name is gone everywhere else.
CREATE TABLE erasures (
    client text COLLATE "C" PRIMARY KEY,
    pseudonym text NOT NULL
);
