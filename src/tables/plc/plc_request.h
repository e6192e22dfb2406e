/*
 * plc_request.h
 *		The queue atproto.plc_log_request: accounts whose logs a did:plc directory is asked for (M-11, M-14).
 *
 * An entry whose operation follows an unknown one has a row of plc_refused, with the reason "prev".  The entry waits while the
 * account has an open request: the answer is judged together with these entries, and an entry that holds then loses its
 * row.  So whatever happens to a request, the row of plc_refused tells what the tables lack.
 *
 * Consumers write the requests, the fetcher asks (task_plc_log.c), and the subscription's consumer applies the answers
 * (plc_answer.h).  All statements run with the rights of the table's owner.  The caller has SPI connected, in a transaction
 * with a snapshot.
 */
#ifndef ATP_PLC_REQUEST_H
#define ATP_PLC_REQUEST_H

#include "postgres.h"

#include "config/subscription.h"
#include "utils/timestamp.h"

/* M-11: a log that lacks an operation, or is no log of the account, is asked for once more, after this time. */
#define ATP_PLC_TRIES		2
#define ATP_PLC_AGAIN		"interval '60 s'"

/* Bytes of an answer.  A directory takes about 100 operations of an account in a week, of some hundred bytes each. */
#define ATP_PLC_ANSWER_MAX	(8 * 1024 * 1024)

/* Entries of an answer.  An entry with a tombstone has more than 300 bytes; shorter entries have no operation, and cost more memory than their bytes. */
#define ATP_PLC_ENTRIES_MAX	(ATP_PLC_ANSWER_MAX / 256)

/* SQL: is a row still to be asked for? */
#define ATP_PLC_IS_OPEN		"answer IS NULL AND next_try IS NOT NULL"

/*
 * M-11: operations of these accounts follow unknown ones.  Returns the number of accounts that have an open request now, and
 * sets open[]: a subscription has atproto.queue_limit requests for this reason at most.  An account that was asked for
 * before is asked for again, but later each time.  DIDs sorted, without duplicates.
 */
extern int	atp_plc_request_logs(const AtpSubscription *sub, struct varlena *const *dids, int n, bool *open);

/*
 * M-14: make requests for the accounts in "dids", and remove the requests for accounts that left "dids"; all: also ask again for
 * accounts whose log has come.  Call when the settings were read, and, with all, after the first event of a stream that was
 * joined without a position, before the transaction of this event.
 */
extern void atp_plc_request_named(const AtpSubscription *sub, bool all);

/* After set_cursor(): ask again for the accounts in "dids"; returns their number. */
extern int64 atp_plc_request_again(const char *name);

#endif							/* ATP_PLC_REQUEST_H */
