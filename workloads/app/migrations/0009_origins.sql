-- The sender of the job, and of the last version of the document, as in the header of messages. NULL if an earlier release
-- wrote the row.
ALTER TABLE jobs ADD COLUMN origin text;
ALTER TABLE documents ADD COLUMN origin text;
