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
	int64		seq;			/* 0: unknown */
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

/* An entry in the tables, as the directory gave the entry, or would give it.  A user may have altered the row. */
typedef struct AtpPlcStoredEntry
{
	int			account;		/* index of the account */
	int64		seq;			/* 0: unknown */
	AtpBytes	text;
} AtpPlcStoredEntry;

typedef struct AtpPlcEntries
{
	int			n;
	AtpPlcStoredEntry *entries;
} AtpPlcEntries;

/* M-11: entries of n accounts that wait in plc_refused, in the order of accounts and sequence numbers; the number for each account is bounded. */
extern AtpPlcEntries atp_plc_read_waiting(AtpStatements *set, struct varlena *const *dids, int n);

/* M-11: the stored operations of n accounts as entries, in the order of accounts and places. */
extern AtpPlcEntries atp_plc_read_stored(AtpStatements *set, struct varlena *const *dids, int n);

/* SQL: the DAG-CBOR of a packed operation; prev is the CID of the operation before, or NULL. */
#define ATP_PLC_UNPACKED(packed, prev) \
	"atproto.plc_unpack(" packed ", " prev ", ARRAY(SELECT t.text FROM unnest(atproto.plc_texts(" packed ")) WITH ORDINALITY x (id, i)" \
	" LEFT JOIN #.plc_text t ON t.id = x.id ORDER BY x.i))"

/* SQL, M-04: createdAt of the row o: milliseconds, as a directory writes them; microseconds of a directory that has written them. */
#define ATP_PLC_ENTRY_TIME \
	"to_char(o.created_at AT TIME ZONE 'UTC', CASE WHEN extract(microseconds FROM o.created_at)::bigint % 1000 = 0" \
	" THEN 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"' ELSE 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"' END)"

/* Rows on their way into the tables. */
typedef struct AtpPlcWriter AtpPlcWriter;

extern AtpPlcWriter *atp_plc_writer(AtpStatements *set, const char *subscription, int max);
extern void atp_plc_put_operation(AtpPlcWriter *w, const AtpPlcStored *row);
/* The operation is stored, so plc_refused must not have the operation: two sources of a target may have judged at the same moment. */
extern void atp_plc_put_known(AtpPlcWriter *w, struct varlena *did, const uint8_t *cid);
extern void atp_plc_put_nullified(AtpPlcWriter *w, struct varlena *did, int32 n, int32 by);
/* M-11: n rows of the account, those from number first on, are removed before other rows are written. */
extern void atp_plc_put_replaced(AtpPlcWriter *w, struct varlena *did, int32 first, int32 n);
extern void atp_plc_put_refused(AtpPlcWriter *w, const AtpEvent *event, const AtpPlcRow *row, AtpErr err);

/*
 * Writes all rows.  An ERROR, after which the batch is tried again, if another source of the same tables has meanwhile
 * written operations of these accounts.
 */
extern void atp_plc_write(AtpPlcWriter *w);

#endif							/* ATP_PLC_TABLES_H */
