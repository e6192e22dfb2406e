/*
 * extension.h
 *		The state of the extension in the current database, and the OIDs of its objects.
 */
#ifndef ATP_EXTENSION_H
#define ATP_EXTENSION_H

#include "postgres.h"

typedef enum AtpExtension
{
	ATP_EXTENSION_ABSENT,
	ATP_EXTENSION_OTHER_VERSION,	/* the catalog may differ from this library's version */
	ATP_EXTENSION_OTHER_SCRIPT, /* this version, by a different install script */
	ATP_EXTENSION_READY
} AtpExtension;

/* Inside a transaction: look up the extension, and lock it against DROP EXTENSION until the transaction ends. */
extern AtpExtension atp_extension_lock(void);

/*
 * Like atp_extension_lock(), but without waiting.  True: locked, or there is no extension.  False: a session
 * is about to drop or change the extension.
 */
extern bool atp_extension_lock_at_once(void);

/* Like atp_extension_lock(), without a lasting lock. */
extern AtpExtension atp_extension_look(void);

/* The text for users in the states OTHER_VERSION and OTHER_SCRIPT: the cause and the remedy. */
extern const char *atp_extension_fault(AtpExtension extension);

/* Schema of types and operators; quoted.  Inside a transaction, after the above. */
extern Oid	atp_extension_namespace(void);
extern const char *atp_extension_schema(void);

/* OID of one of our types; an ERROR when the type is missing. */
extern Oid	atp_type(const char *name);

/* OID of a relation in schema atproto; an ERROR when the relation is missing. */
extern Oid	atp_relation(const char *name);

/* OID of the schema with the tables of a subscription; ERROR if missing. */
extern Oid	atp_schema_of(const char *target);

/* OID of a table of a target; an ERROR when the table is missing, with a hint how to create it. */
extern Oid	atp_table_in(const char *target, const char *name);

#endif							/* ATP_EXTENSION_H */
