/*
 * plc_order.h
 *		Operations of an account, received in any order, put in an order in which they can be judged (M-11).
 *
 * An operation comes after the operation that its "prev" names.  Operations with the same prev come by their times: a
 * recovery is later than what the recovery replaces.  Whether the times are right, the judge of plc_log.h tells.
 */
#ifndef ATP_PLC_ORDER_H
#define ATP_PLC_ORDER_H

#include "core/plc/plc_op.h"

typedef struct AtpPlcUnordered
{
	const uint8_t *cid;			/* ATP_CID_BLESSED_LEN bytes; NULL: the entry cannot hold, and comes last */
	const uint8_t *prev;		/* ATP_CID_BLESSED_LEN bytes; NULL: the operation has no prev */
	int64_t		created_at;
} AtpPlcUnordered;

/* Bytes of memory for the order of n operations. */
extern size_t atp_plc_order_room(uint32_t n);

/*
 * Puts the indexes of n operations, fewer than 2^30, into order, an array for n, and returns their number.  Of operations
 * with the same CID only the first is in the order.  memory is aligned as malloc() aligns.
 */
extern uint32_t atp_plc_order(const AtpPlcUnordered *operations, uint32_t n, void *memory, uint32_t *order);

#endif							/* ATP_PLC_ORDER_H */
