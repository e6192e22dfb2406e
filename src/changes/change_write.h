/*
 * change_write.h
 *		Messages of the output plugin: one line of JSON each.
 */
#ifndef ATP_CHANGE_WRITE_H
#define ATP_CHANGE_WRITE_H

#include "postgres.h"

#include "changes/change.h"
#include "core/atp.h"
#include "datatype/timestamp.h"
#include "lib/stringinfo.h"

/* Begin a message with the members that all kinds have; target and did may be NULL.  Ends with atp_message_end(). */
extern StringInfo atp_message_begin(const AtpChanges *changes, AtpChangeTxn *txn, const char *kind, const char *target, const char *did);
extern void atp_message_end(const AtpChanges *changes);

/* The text of a column's value; NULL: SQL null, or not in WAL. */
extern char *atp_change_text(const AtpChangeRow *row, int column);

/* The contents of a value of type bytea or dagcbor, which is not null. */
extern AtpBytes atp_change_bytes(const AtpChangeRow *row, int column);

/* "name":"value", the value as a JSON string; nothing for NULL. */
extern void atp_append_text(StringInfo out, const char *before, const char *name, const char *value);
extern void atp_append_base64(StringInfo out, AtpBytes bytes);
extern void atp_append_time(StringInfo out, TimestampTz time);

#endif							/* ATP_CHANGE_WRITE_H */
