/*
 * status_wish.h
 *		The table status_wish: accounts whose server is asked whether they are active (V-39).
 */
#ifndef ATP_STATUS_WISH_H
#define ATP_STATUS_WISH_H

#include "tables/sink.h"

/*
 * The servers of these events' accounts are to be asked, once the transaction commits:
 * the events are sorted by DID.  Who was asked lately is not asked again.
 * SPI is connected.
 */
extern void atp_status_wish(const AtpApply *a, AtpEvent *const *events, int n);

#endif							/* ATP_STATUS_WISH_H */
