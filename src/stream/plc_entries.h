/*
 * plc_entries.h
 *		Entries of a did:plc directory as events, whether a stream or the log of an account has them.
 */
#ifndef ATP_PLC_ENTRIES_H
#define ATP_PLC_ENTRIES_H

#include "postgres.h"

#include "core/atp.h"
#include "stream/batch.h"

/*
 * Makes the row of an event whose message is an entry.  The operation may be wrong: the row says so.  False: no row; *err is ATP_OK
 * if the settings exclude the account, otherwise the entry names no account, with the offset of the fault in *at.
 */
extern bool atp_plc_make_entry(const AtpSettings *settings, AtpBatch *batch, AtpEvent *event, AtpErr *err, size_t *at);

#endif							/* ATP_PLC_ENTRIES_H */
