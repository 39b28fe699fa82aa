-- What people write about a link. No redirect reads it.
CREATE TABLE link_labels (
    code text COLLATE "C" PRIMARY KEY,
    title text,
    note text
);

-- The tags of links, and the time at which the link was created: the order in which lists show them.
CREATE TABLE link_tags (
    tag text COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL,
    code text COLLATE "C" NOT NULL,
    PRIMARY KEY (tag, created_at, code)
);

-- Finds the tags of a link.
CREATE INDEX link_tags_by_code ON link_tags (code);

-- The words of titles, in lower case, in the same order.
CREATE TABLE link_title_words (
    word text COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL,
    code text COLLATE "C" NOT NULL,
    PRIMARY KEY (word, created_at, code)
);

-- Finds the words of a link's title.
CREATE INDEX link_title_words_by_code ON link_title_words (code);
