/*
 * history.h
 *		Rows of atproto.history: how far the reading of an archive is.
 */
#ifndef ATP_HISTORY_H
#define ATP_HISTORY_H

#include "postgres.h"

/*
 * If the archive of this subscription's server is to be read, and no row says how far the reading is, begin a row.  A row
 * of another stream begins anew.  Call with SPI connected, and with the rights of the subscription's owner.
 */
extern void atp_history_begin(const char *name);

#endif							/* ATP_HISTORY_H */
