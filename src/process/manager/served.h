/*
 * served.h
 *		Why no process can serve this database: for the views of states, and for the
 *		warnings of subscribe().
 */
#ifndef ATP_SERVED_H
#define ATP_SERVED_H

#include "postgres.h"

/* NULL: a manager serves this database, or is about to.  Otherwise the reason, and what to do. */
extern const char *atp_why_not_served(void);

/*
 * How many background worker slots the server lacks for all processes that the subscriptions of this database
 * need; 0: none.  An estimate: processes of other databases and extensions may start or end meanwhile.  Needs SPI.
 */
extern int	atp_worker_slots_lacking(void);

#endif							/* ATP_SERVED_H */
