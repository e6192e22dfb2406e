/*
 * src/fetch: what servers say about themselves, and relays about hosts.
 */

CREATE TABLE atproto.server_info_request (
    url text PRIMARY KEY
        CHECK (octet_length(url) <= 1000),
    requested_at timestamptz NOT NULL,
    answered_at timestamptz,
    answer text
        CHECK (octet_length(answer) <= 65536),
    error text
        CHECK (octet_length(error) <= 1000)
);
COMMENT ON TABLE atproto.server_info_request IS 'requests of describe_server() and host_status(), with the answers; in no dump';
COMMENT ON COLUMN atproto.server_info_request.url IS 'URL of the request';
COMMENT ON COLUMN atproto.server_info_request.answered_at IS 'when the answer came; NULL: no answer yet';
COMMENT ON COLUMN atproto.server_info_request.answer IS 'the server''s answer: JSON, unchanged';
COMMENT ON COLUMN atproto.server_info_request.error IS 'why there is no answer';
COMMENT ON COLUMN atproto.server_info_request.requested_at IS 'when the procedure was called';

-- no row belongs to a role, so the policy lets every role pass; a role that reads the table still needs a grant
ALTER TABLE atproto.server_info_request ENABLE ROW LEVEL SECURITY;
CREATE POLICY everybody ON atproto.server_info_request USING (true);

-- No EXECUTE for PUBLIC, as for subscribe(): a caller makes the server open connections.
CREATE PROCEDURE atproto.describe_server(server text, INOUT answer jsonb DEFAULT NULL, timeout interval DEFAULT '10 s')
    LANGUAGE c AS 'MODULE_PATHNAME', 'atp_describe_server';
COMMENT ON PROCEDURE atproto.describe_server(text, jsonb, interval) IS 'what a PDS says about itself (com.atproto.server.describeServer). server: the host''s name, or any URL of the host; an ERROR if no answer comes in time';
CREATE PROCEDURE atproto.host_status(relay text, hostname text, INOUT answer jsonb DEFAULT NULL, timeout interval DEFAULT '10 s')
    LANGUAGE c AS 'MODULE_PATHNAME', 'atp_host_status';
COMMENT ON PROCEDURE atproto.host_status(text, text, jsonb, interval) IS 'what a relay says about a host whose stream the relay reads (com.atproto.sync.getHostStatus): status, seq, accountCount';
REVOKE ALL ON PROCEDURE atproto.describe_server(text, jsonb, interval), atproto.host_status(text, text, jsonb, interval) FROM PUBLIC;
