-- base.sql
--		Once for a server, after Chaos/base.sql: the roles of the programs, with the
--		rights that doc/operate/operations.md gives to owners of subscriptions.

CREATE ROLE granted LOGIN;
CREATE ROLE stranger LOGIN;
GRANT EXECUTE ON FUNCTION atproto.subscribe, atproto.unsubscribe, atproto.pause, atproto.resume,
    atproto.set_cursor, atproto.close_gap, atproto.refill, atproto.retry, atproto.create_tables, atproto.audit,
    atproto.rebuild_links, atproto.link_problems, atproto.load_car, atproto.partition, atproto.resync TO owner, granted, stranger;
GRANT SELECT, INSERT, UPDATE, DELETE ON atproto.subscription, atproto.request_header, atproto.cursor,
    atproto.dead_frame TO owner, granted, stranger;
GRANT SELECT, UPDATE, DELETE ON atproto.dead_letter, atproto.gap TO owner, granted, stranger;
GRANT INSERT (subscription, seq, stage, sqlstate, message, did, path, digest, attempts) ON atproto.dead_letter TO owner, granted, stranger;
GRANT INSERT (subscription, endpoint, after_seq, before_seq, reason) ON atproto.gap TO owner, granted, stranger;
GRANT USAGE ON SCHEMA chaos TO owner, granted, stranger;
