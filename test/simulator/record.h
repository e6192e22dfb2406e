/*
 * record.h
 *		What a record of each kind contains.
 */
#ifndef SIM_RECORD_H
#define SIM_RECORD_H

#include "network.h"
#include "social.h"
#include "value.h"

/* Fills v with the record that this account makes now, at this key of its collection. */
extern const Value *record_make(Network *net, const Account *account, Kind kind, const char *rkey,
								 const About *about, Values *v);

#endif							/* SIM_RECORD_H */
