/*
 * error.h
 *		Raises faults that src/core found in a function's argument as errors of
 *		PostgreSQL.  Faults in the syntax of a type are raised by types/glue.h.
 */
#ifndef ATP_DATA_ERROR_H
#define ATP_DATA_ERROR_H

#include "common/compat.h"
#include "core/atp.h"

/* No offset: the faulty value has no bytes in the argument. */
#define ATP_NO_OFFSET	SIZE_MAX

/* what: the message, such as "invalid DAG-CBOR"; at: offset of the fault in the argument. */
pg_noreturn extern void atp_data_error(const char *what, AtpErr err, size_t at);

/*
 * An error unless the database's encoding is UTF8: with another encoding, jsonb
 * and text cannot hold the protocol's texts.
 */
extern void atp_require_utf8(void);

/* An AtpTickFn that lets the statement be cancelled. */
extern void atp_data_tick(void);

#endif							/* ATP_DATA_ERROR_H */
