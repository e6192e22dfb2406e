/*
 * error.h
 *		A fault that src/core found in a value, as an error of PostgreSQL.
 */
#ifndef ATP_DATA_ERROR_H
#define ATP_DATA_ERROR_H

#include "common/compat.h"
#include "core/atp.h"

/* No position: the fault is in something that has no bytes of its own. */
#define ATP_NO_OFFSET	SIZE_MAX

/* what: "invalid DAG-CBOR"; at: offset of the fault in the argument. */
pg_noreturn extern void atp_data_error(const char *what, AtpErr err, size_t at);

/* jsonb and text hold UTF-8 only in a database whose encoding that is. */
extern void atp_require_utf8(void);

/* An AtpTickFn: the statement can be cancelled here. */
extern void atp_data_tick(void);

#endif							/* ATP_DATA_ERROR_H */
