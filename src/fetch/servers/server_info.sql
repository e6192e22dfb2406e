/*
 * src/fetch: what hosts say of themselves, and of each other.
 */

CREATE TABLE atproto.host_question (
    url text PRIMARY KEY
        CHECK (octet_length(url) <= 1000),
    asked_at timestamptz NOT NULL,
    answered_at timestamptz,
    answer text
        CHECK (octet_length(answer) <= 65536),
    error text
        CHECK (octet_length(error) <= 1000)
);
COMMENT ON TABLE atproto.host_question IS 'what describe_server() and host_status() have asked lately; in no dump';
COMMENT ON COLUMN atproto.host_question.url IS 'what is asked';
COMMENT ON COLUMN atproto.host_question.answered_at IS 'NULL: the fetcher is to ask';
COMMENT ON COLUMN atproto.host_question.answer IS 'JSON, as it came';
COMMENT ON COLUMN atproto.host_question.error IS 'why there is no answer';
COMMENT ON COLUMN atproto.host_question.asked_at IS 'when somebody asked';

-- nothing here is any role's own; who reads it needs a grant all the same
ALTER TABLE atproto.host_question ENABLE ROW LEVEL SECURITY;
CREATE POLICY everybody ON atproto.host_question USING (true);

-- As subscribe(): who may call these has the server open connections.
CREATE PROCEDURE atproto.describe_server(server text, INOUT answer jsonb DEFAULT NULL, timeout interval DEFAULT '10 s')
    LANGUAGE c AS 'MODULE_PATHNAME', 'atp_describe_server';
COMMENT ON PROCEDURE atproto.describe_server(text, jsonb, interval) IS 'what a PDS says of itself (com.atproto.server.describeServer): a host''s name or any URL of it; an ERROR when it does not say in time';
CREATE PROCEDURE atproto.host_status(relay text, hostname text, INOUT answer jsonb DEFAULT NULL, timeout interval DEFAULT '10 s')
    LANGUAGE c AS 'MODULE_PATHNAME', 'atp_host_status';
COMMENT ON PROCEDURE atproto.host_status(text, text, jsonb, interval) IS 'what a relay knows of a host whose stream it reads (com.atproto.sync.getHostStatus): status, seq, accountCount';
REVOKE ALL ON PROCEDURE atproto.describe_server(text, jsonb, interval), atproto.host_status(text, text, jsonb, interval) FROM PUBLIC;
