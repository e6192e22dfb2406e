-- AT URIs from what people paste (aturi_from.c).

CREATE FUNCTION aturi_from(text) RETURNS aturi
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_from' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION aturi_from(text) IS 'the URI that a pasted text names, in normal form: at://..., or the candidate forms at:///did:..., at:did:... and at://did%3Aplc%3A...; NULL for any other text';

CREATE FUNCTION aturi_from(address text, pattern text, uri text) RETURNS aturi
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_from_pattern' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION aturi_from(text, text, text) IS 'the URI of a web page whose address fits the pattern, such as https://bsky.app/profile/{authority}/post/{rkey} with the URI at://{authority}/app.bsky.feed.post/{rkey}; NULL for any other address';
