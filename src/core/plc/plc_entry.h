/*
 * plc_entry.h
 *		The object around an operation in the answers of a did:plc directory: an element of /log/audit, a line of
 *		/export, a message of /export/stream.  The operation itself is left to plc_op.h.
 */
#ifndef ATP_PLC_ENTRY_H
#define ATP_PLC_ENTRY_H

#include "core/codec/json_text.h"
#include "core/plc/plc_op.h"

typedef struct AtpPlcEntry
{
	AtpSpan		did;			/* valid, of the method plc */
	AtpSpan		cid;			/* as written */
	AtpSpan		operation;		/* the JSON of the object */
	int64_t		created_at;		/* microseconds since the Unix epoch (M-04) */
	bool		has_mark;		/* the entry has "nullified": only in /log/audit */
	bool		nullified;
	AtpJsonTexts texts;			/* texts with escapes */
} AtpPlcEntry;

/*
 * Reads the entry, and passes over unknown members.  After an error, a span that could not be read has ptr NULL, and the
 * rest are set, so that a refused entry can name its account.
 */
extern AtpErr atp_plc_entry_read(AtpSpan json, AtpPlcEntry *entry, size_t *at);

/* M-02: is the entry's "cid" the operation's? */
extern bool atp_plc_entry_names(const AtpPlcEntry *entry, const AtpPlcOp *op);

#endif							/* ATP_PLC_ENTRY_H */
