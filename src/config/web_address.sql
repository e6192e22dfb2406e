/*
 * src/config: which web addresses are pages of which records (A-43).
 *
 * The rows of the extension are in the view, not in the table: so neither a dump nor a publication contains
 * these rows, and a new version of the extension replaces the view alone.
 */
CREATE TABLE atproto.web_address (
    pattern text PRIMARY KEY,
    uri text NOT NULL,
    CONSTRAINT web_address_fits CHECK (@extschema@.aturi_from('', pattern, uri) IS NULL)
);
COMMENT ON TABLE atproto.web_address IS 'addresses of web pages, added by users; the view atproto.known_web_address also has the addresses that come with the extension';
COMMENT ON COLUMN atproto.web_address.pattern IS 'https://, a host, and a path; {authority}, {collection} and {rkey} stand for whole segments';
COMMENT ON COLUMN atproto.web_address.uri IS 'the URI of the page, with the placeholders of the pattern';
COMMENT ON CONSTRAINT web_address_fits ON atproto.web_address IS 'always holds: the function raises an error for an invalid pattern';
SELECT pg_catalog.pg_extension_config_dump('atproto.web_address', '');

CREATE VIEW atproto.known_web_address AS
    SELECT pattern, uri, false AS bundled
    FROM atproto.web_address
    UNION ALL
    SELECT b.pattern, b.uri, true
    FROM (VALUES
        ('https://bsky.app/profile/{authority}', 'at://{authority}'),
        ('https://bsky.app/profile/{authority}/post/{rkey}', 'at://{authority}/app.bsky.feed.post/{rkey}'),
        ('https://bsky.app/profile/{authority}/feed/{rkey}', 'at://{authority}/app.bsky.feed.generator/{rkey}'),
        ('https://bsky.app/profile/{authority}/lists/{rkey}', 'at://{authority}/app.bsky.graph.list/{rkey}'),
        ('https://bsky.app/starter-pack/{authority}/{rkey}', 'at://{authority}/app.bsky.graph.starterpack/{rkey}'),
        ('https://blacksky.community/profile/{authority}', 'at://{authority}'),
        ('https://blacksky.community/profile/{authority}/post/{rkey}', 'at://{authority}/app.bsky.feed.post/{rkey}'),
        ('https://pdsls.dev/at://{authority}', 'at://{authority}'),
        ('https://pdsls.dev/at://{authority}/{collection}', 'at://{authority}/{collection}'),
        ('https://pdsls.dev/at://{authority}/{collection}/{rkey}', 'at://{authority}/{collection}/{rkey}')) b (pattern, uri)
    WHERE NOT EXISTS (SELECT FROM atproto.web_address w WHERE w.pattern = b.pattern);
COMMENT ON VIEW atproto.known_web_address IS 'the known addresses of web pages, each pattern once: a row of atproto.web_address, or else the row that comes with the extension';
COMMENT ON COLUMN atproto.known_web_address.bundled IS 'does the row come with the extension?';

-- Addresses are public: every role may read them.  A role needs a grant to write them.
ALTER TABLE atproto.web_address ENABLE ROW LEVEL SECURITY;
CREATE POLICY everybody ON atproto.web_address USING (true);
GRANT SELECT ON atproto.web_address, atproto.known_web_address TO PUBLIC;

-- A pattern of the table goes before a pattern of the extension.  Patterns that give different URIs give NULL: no guess.
-- The URIs are compared as texts: pg_upgrade makes the function before the operators of the types.
CREATE FUNCTION atproto.aturi_from_web(address text) RETURNS @extschema@.aturi
    LANGUAGE sql STABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
    SELECT coalesce(@extschema@.aturi_from(address),
        (SELECT CASE WHEN count(DISTINCT page.uri) = 1 THEN min(page.uri)::@extschema@.aturi END
         FROM (SELECT @extschema@.aturi_from(address, known.pattern, known.uri)::text COLLATE "C" AS uri, known.bundled
               FROM atproto.known_web_address known) page
         WHERE page.uri IS NOT NULL
         GROUP BY page.bundled
         ORDER BY page.bundled
         LIMIT 1));
END;
COMMENT ON FUNCTION atproto.aturi_from_web(text) IS 'the URI that a pasted text names, as by aturi_from(text), or the URI of a web page whose address fits one pattern of atproto.known_web_address; NULL for any other text';
