/*
 * src/fetch: zstd dictionaries of compressed streams.
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
COMMENT ON TABLE atproto.zstd_dictionary IS 'dictionaries with which streams'' servers compress their messages';
COMMENT ON COLUMN atproto.zstd_dictionary.endpoint IS 'stream, as in atproto.cursor';
COMMENT ON COLUMN atproto.zstd_dictionary.url IS 'where the fetcher gets the dictionary; NULL: an operator has set the dictionary, by atproto.set_zstd_dictionary()';
COMMENT ON COLUMN atproto.zstd_dictionary.dictionary IS 'the dictionary; NULL: no dictionary, and messages are not compressed';
COMMENT ON COLUMN atproto.zstd_dictionary.due_at IS 'the fetcher does not ask for the dictionary before this time';
COMMENT ON COLUMN atproto.zstd_dictionary.failures IS 'failed requests, answers without a dictionary, and dictionaries that the server no longer used';
COMMENT ON COLUMN atproto.zstd_dictionary.error IS 'why there is no dictionary';
COMMENT ON COLUMN atproto.zstd_dictionary.subscription IS 'subscription whose stream the dictionary compresses';
COMMENT ON COLUMN atproto.zstd_dictionary.changed_at IS 'when the dictionary or the error was written';
SELECT pg_catalog.pg_extension_config_dump('atproto.zstd_dictionary', '');

-- a role sees the dictionaries of the subscriptions that the role sees
ALTER TABLE atproto.zstd_dictionary ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner ON atproto.zstd_dictionary
    USING (EXISTS (SELECT FROM atproto.subscription s WHERE s.name = subscription));

CREATE FUNCTION atproto.set_zstd_dictionary(name text, dictionary bytea) RETURNS void
    LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_set_zstd_dictionary';
COMMENT ON FUNCTION atproto.set_zstd_dictionary(text, bytea) IS 'set the dictionary with which a Jetstream compresses the messages of a subscription; NULL: no compression';
REVOKE ALL ON FUNCTION atproto.set_zstd_dictionary(text, bytea) FROM PUBLIC;
