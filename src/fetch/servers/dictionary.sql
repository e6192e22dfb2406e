/*
 * src/fetch: zstd dictionaries, by which streams are compressed.
 */

CREATE TABLE atproto.zstd_dictionary (
    subscription text NOT NULL
        REFERENCES atproto.subscription (name) ON UPDATE CASCADE ON DELETE CASCADE,
    endpoint text NOT NULL,
    url text
        CHECK (octet_length(url) <= 8192),
    dictionary bytea
        CHECK (octet_length(dictionary) <= 1048576),
    changed_at timestamptz NOT NULL DEFAULT now(),
    due_at timestamptz NOT NULL DEFAULT now(),
    failures integer NOT NULL DEFAULT 0,
    error text
        CHECK (octet_length(error) <= 1000),
    PRIMARY KEY (subscription, endpoint)
);
COMMENT ON TABLE atproto.zstd_dictionary IS 'dictionaries by which streams'' servers compress their messages';
COMMENT ON COLUMN atproto.zstd_dictionary.endpoint IS 'stream, as in atproto.cursor';
COMMENT ON COLUMN atproto.zstd_dictionary.url IS 'where the fetcher gets it; NULL: from an operator, by atproto.set_zstd_dictionary()';
COMMENT ON COLUMN atproto.zstd_dictionary.dictionary IS 'NULL: there is none, and messages are not compressed';
COMMENT ON COLUMN atproto.zstd_dictionary.due_at IS 'not asked for before';
COMMENT ON COLUMN atproto.zstd_dictionary.failures IS 'answers that were none, and dictionaries that the server did not know any more';
COMMENT ON COLUMN atproto.zstd_dictionary.error IS 'why there is none';
COMMENT ON COLUMN atproto.zstd_dictionary.subscription IS 'whose stream is compressed by it';
COMMENT ON COLUMN atproto.zstd_dictionary.changed_at IS 'when it was taken';
SELECT pg_catalog.pg_extension_config_dump('atproto.zstd_dictionary', '');

-- seen by whom the subscription is
ALTER TABLE atproto.zstd_dictionary ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner ON atproto.zstd_dictionary
    USING (EXISTS (SELECT FROM atproto.subscription s WHERE s.name = subscription));

CREATE FUNCTION atproto.set_zstd_dictionary(name text, dictionary bytea) RETURNS void
    LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_set_zstd_dictionary';
COMMENT ON FUNCTION atproto.set_zstd_dictionary(text, bytea) IS 'the dictionary by which a Jetstream compresses what it sends to a subscription; NULL: nothing is compressed';
REVOKE ALL ON FUNCTION atproto.set_zstd_dictionary(text, bytea) FROM PUBLIC;
