/*
 * plc_log.h
 *		The log of an account of the did:plc directory, judged: may an operation follow the operations before, and
 *		which operations does a recovery nullify (M-01, M-04, M-05, M-07 to M-09).
 *
 * The log lies in the caller's memory, and keeps of an operation only the parts by which later operations are judged.  An
 * operation that is refused is not added.  The present chain begins at the genesis and ends at the operation that
 * was added last.
 */
#ifndef ATP_PLC_LOG_H
#define ATP_PLC_LOG_H

#include "core/plc/plc_op.h"

#define ATP_PLC_NONE		UINT32_MAX

/* M-09: microseconds within which a recovery may nullify an operation: 72 hours */
#define ATP_PLC_WINDOW		(INT64_C(72) * 3600 * 1000000)

/* An operation of the log. */
typedef struct AtpPlcPlace
{
	uint8_t		cid[ATP_CID_BLESSED_LEN];
	uint8_t		kind;			/* AtpPlcKind */
	uint8_t		signer;			/* index of the signer among the keys of prev; of a genesis, among its own keys */
	uint8_t		nkeys;
	const AtpPlcKey *keys;		/* the caller's: atp_plc_log_add() */
	int64_t		created_at;
	uint32_t	prev;			/* index; ATP_PLC_NONE: the genesis */
	uint32_t	next;			/* the operation that follows in the present chain; ATP_PLC_NONE: the newest, or nullified */
	uint32_t	nullified_by;	/* M-05 */
} AtpPlcPlace;

typedef struct AtpPlcLog
{
	AtpSpan		did;			/* the account */
	uint32_t	n;
	uint32_t	room;
	AtpPlcPlace *places;
	uint32_t	mask;
	uint32_t   *slots;			/* indexes by CID, for atp_plc_log_find() */
} AtpPlcLog;

/* The place of an operation that may follow, found by atp_plc_judge(). */
typedef struct AtpPlcVerdict
{
	uint32_t	prev;
	uint8_t		signer;
} AtpPlcVerdict;

/* Bytes of memory for a log of n operations. */
extern size_t atp_plc_log_room(uint32_t n);

/* Begins an empty log; memory is aligned as malloc() aligns. */
extern void atp_plc_log_init(AtpPlcLog *log, AtpSpan did, uint32_t n, void *memory);

/* The index of the operation; ATP_PLC_NONE: the log does not have it. */
extern uint32_t atp_plc_log_find(const AtpPlcLog *log, const uint8_t cid[ATP_CID_BLESSED_LEN]);

/*
 * May the operation, which the directory says is of this account and came at this time, follow the log?  If several
 * rules are broken, the first of the order place, DID, signature, key, time, window is returned (M-01).
 * ATP_E_KEY_BUILD: the build lacks a curve, and nothing is known of the operation.  Most operations take one verification,
 * however many keys may sign; no operation takes more verifications than there are keys.
 */
extern AtpErr atp_plc_judge(const AtpPlcLog *log, const AtpPlcOp *op, AtpSpan did, int64_t created_at,
							const AtpVerifier *v, AtpPlcVerdict *verdict);

/*
 * Adds an operation after atp_plc_judge() has returned ATP_OK, and nullifies the operations that a recovery replaces.
 * keys are op->nkeys keys, which must live as long as the log.
 */
extern void atp_plc_log_add(AtpPlcLog *log, const AtpPlcOp *op, int64_t created_at, const AtpPlcKey *keys,
							const AtpPlcVerdict *verdict);

/*
 * Adds a place as it was before, for a log that is read again: places come in their order, and may begin in the middle of
 * the log, then with prev ATP_PLC_NONE.  next is set by the place that follows.
 */
extern void atp_plc_log_restore(AtpPlcLog *log, const AtpPlcPlace *place);

/* The reason (M-01) by which users know the error: form, encoding, signature and so on; NULL: not of an operation. */
extern const char *atp_plc_reason(AtpErr err);

/* How many slots find n operations by CID: a power of two, at least twice n, so a search in the slots ends soon. */
extern uint32_t atp_plc_slots(uint32_t n);

#endif							/* ATP_PLC_LOG_H */
