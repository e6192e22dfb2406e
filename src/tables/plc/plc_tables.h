/*
 * plc_tables.h
 *		The tables plc_operation and plc_refused: rows in and out (M-01, M-05, M-10).
 *
 * Invariant: the operations of an account are numbered from 1 without a gap, in the order in which they were accepted;
 * so the last is the newest of the present chain.
 */
#ifndef ATP_PLC_TABLES_H
#define ATP_PLC_TABLES_H

#include "postgres.h"

#include "core/plc/plc_log.h"
#include "tables/base/sink.h"

/* The parts of a stored operation by which later operations are judged. */
typedef struct AtpPlcStored
{
	struct varlena *did;
	int32		n;
	int32		prev;			/* 0: a genesis */
	int32		nullified_by;	/* 0: not nullified */
	int64		created_at;		/* microseconds since the Unix epoch */
	uint8_t		cid[ATP_CID_BLESSED_LEN];
	struct varlena *packed;		/* plc_pack.h; only the first byte, unless whole; NULL: a user has altered the table */
	bool		whole;
} AtpPlcStored;

/*
 * The newest operation of each of these accounts, or their whole logs, but of the packed operations only the first bytes.
 * palloc'd, in the order of accounts and places.
 */
extern AtpPlcStored *atp_plc_read_newest(AtpStatements *set, struct varlena **dids, int n, int *found);
extern AtpPlcStored *atp_plc_read_logs(AtpStatements *set, struct varlena **dids, int n, int *found);

/* Reads the packed operations of n rows. */
extern void atp_plc_read_packed(AtpStatements *set, AtpPlcStored **rows, int n);

/* M-11: sets refused[i] if plc_refused has an operation with CID i of account i. */
extern void atp_plc_find_refused(AtpStatements *set, struct varlena *const *dids, const uint8_t *const *cids, int n, bool *refused);

/* An entry that was refused for the reason "prev". */
typedef struct AtpPlcWaiting
{
	int			account;		/* index of the account */
	int64		seq;			/* 0: unknown */
	AtpBytes	entry;			/* as received; a user may have altered the row */
} AtpPlcWaiting;

/* M-11: waiting entries of n accounts, in the order of accounts and sequence numbers; the number for each account is bounded. */
extern AtpPlcWaiting *atp_plc_read_waiting(AtpStatements *set, struct varlena *const *dids, int n, int *nwaiting);

/* SQL: the DAG-CBOR of a packed operation; prev is the CID of the operation before, or NULL. */
#define ATP_PLC_UNPACKED(packed, prev) \
	"atproto.plc_unpack(" packed ", " prev ", ARRAY(SELECT t.text FROM unnest(atproto.plc_texts(" packed ")) WITH ORDINALITY x (id, i)" \
	" LEFT JOIN #.plc_text t ON t.id = x.id ORDER BY x.i))"

/* Rows on their way into the tables. */
typedef struct AtpPlcWriter AtpPlcWriter;

extern AtpPlcWriter *atp_plc_writer(AtpStatements *set, const char *subscription, int max);
extern void atp_plc_put_operation(AtpPlcWriter *w, const AtpPlcStored *row, int64 seq);
/* The operation is stored, so plc_refused must not have the operation: two sources of a target may have judged at the same moment. */
extern void atp_plc_put_known(AtpPlcWriter *w, struct varlena *did, const uint8_t *cid);
extern void atp_plc_put_nullified(AtpPlcWriter *w, struct varlena *did, int32 n, int32 by);
extern void atp_plc_put_refused(AtpPlcWriter *w, const AtpEvent *event, const AtpPlcRow *row, AtpErr err);

/*
 * Writes all rows.  An ERROR, after which the batch is tried again, if another source of the same tables has meanwhile
 * written operations of these accounts.
 */
extern void atp_plc_write(AtpPlcWriter *w);

#endif							/* ATP_PLC_TABLES_H */
