/*
 * record_path.h
 *		The texts of an account and of a record's place, from SQL values.
 */
#ifndef ATP_RECORD_PATH_H
#define ATP_RECORD_PATH_H

#include "postgres.h"

#include "core/atp.h"

/* The text of a DID, palloc'd, with a zero byte behind. */
extern AtpSpan atp_did_span(const struct varlena *did);

/* The key of a record in its repository's tree, collection/rkey, palloc'd. */
extern AtpSpan atp_record_path(const struct varlena *collection, const struct varlena *rkey);

#endif							/* ATP_RECORD_PATH_H */
