-- The vector store that counts, in one row: the server, the collection and its shape. Programs with another one, such as pods
-- with earlier settings, leave what they index due.
CREATE TABLE vector_target (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    target text NOT NULL,
    -- False until every document was made due for it.
    is_complete boolean NOT NULL DEFAULT false,
    -- The last time at which a program had it.
    seen_at timestamptz NOT NULL DEFAULT now()
);
