-- Documents of the vector store. The rows are the truth; what the store holds can be rebuilt from them.
CREATE SEQUENCE document_versions;

CREATE TABLE documents (
    -- That of the point in the store too, where it is unsigned.
    id bigint PRIMARY KEY CHECK (id >= 0),
    -- NULL in a document that was deleted and whose point has yet to go.
    vector real[],
    -- A JSON object. Not jsonb, which cannot hold every JSON text.
    payload json,
    -- Another one with every change and never one a second time, so that no older state is taken for the latest.
    version bigint NOT NULL DEFAULT nextval('document_versions'),
    changed_at timestamptz NOT NULL DEFAULT now(),
    -- When the store took this version; NULL until it did.
    indexed_at timestamptz,
    -- When somebody has to see to it that the store takes it; NULL when nobody has.
    due_at timestamptz DEFAULT now(),
    CONSTRAINT documents_are_whole_or_deleted CHECK ((vector IS NULL) = (payload IS NULL)),
    CONSTRAINT documents_that_are_indexed_are_not_due CHECK (indexed_at IS NULL OR due_at IS NULL)
);

-- Finds what the store has not got.
CREATE INDEX documents_by_due ON documents (due_at) WHERE due_at IS NOT NULL;
