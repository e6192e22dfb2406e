/* atproto: AT Protocol types, data model and event-stream consumer */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION atproto" to load this file. \quit

-- The schema of all objects with a fixed schema: the type tid and the consumer.
CREATE SCHEMA atproto;
COMMENT ON SCHEMA atproto IS 'AT Protocol: the type tid, and the event-stream consumer';
GRANT USAGE ON SCHEMA atproto TO PUBLIC;

