/*
 * collection_count.h
 *		The name in the table collection_count under which a process counts collections beyond its limit.
 */
#ifndef ATP_COLLECTION_COUNT_H
#define ATP_COLLECTION_COUNT_H

/* No domain can have this name, so no account's records have it either. */
#define ATP_OTHER_COLLECTIONS	"invalid.other.collections"

#endif							/* ATP_COLLECTION_COUNT_H */
