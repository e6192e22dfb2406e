/*
 * extension.h
 *		The extension as the consumer finds it in its database.
 */
#ifndef ATP_EXTENSION_H
#define ATP_EXTENSION_H

#include "postgres.h"

typedef enum AtpExtension
{
	ATP_EXTENSION_ABSENT,
	ATP_EXTENSION_OTHER_VERSION,	/* a catalog that this library does not know */
	ATP_EXTENSION_READY
} AtpExtension;

/*
 * Inside a transaction: look the extension up and hold it against DROP
 * EXTENSION until the transaction ends.
 */
extern AtpExtension atp_extension_lock(void);

/* Can that be done without waiting?  Then it is done; false: somebody is about to drop or change the extension. */
extern bool atp_extension_lock_at_once(void);

/* Schema of types and operators; quoted.  Inside a transaction, after the above. */
extern Oid	atp_extension_namespace(void);
extern const char *atp_extension_schema(void);

/* OID of one of our types; ERROR when it is missing. */
extern Oid	atp_type(const char *name);

/* OID of a relation in schema atproto; ERROR when it is missing. */
extern Oid	atp_relation(const char *name);

/* OID of a table of a target; ERROR when it is missing, which says what makes it. */
extern Oid	atp_table_in(const char *target, const char *name);

#endif							/* ATP_EXTENSION_H */
