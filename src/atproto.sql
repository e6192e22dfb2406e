/* atproto: AT Protocol types, data model and event-stream consumer */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION atproto" to load this file. \quit

-- The schema of all objects with a fixed schema: the type tid and the consumer.
CREATE SCHEMA atproto;
COMMENT ON SCHEMA atproto IS 'AT Protocol: the type tid, and the event-stream consumer';
GRANT USAGE ON SCHEMA atproto TO PUBLIC;

-- Functions that only views, triggers and the extension's own processes call.  PUBLIC has no USAGE: a view
-- and a trigger need none, because they name a function by its OID.  PUBLIC may execute the functions of views,
-- because PostgreSQL checks this right for the reader of a view.
CREATE SCHEMA atproto_internal;
COMMENT ON SCHEMA atproto_internal IS 'AT Protocol: functions that only the extension''s own views, triggers and processes call';

