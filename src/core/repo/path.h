/*
 * path.h
 *		Paths of records in a repository, rule B-65, D23: collection '/' record key.
 */
#ifndef ATP_PATH_H
#define ATP_PATH_H

#include "core/atp.h"

/* Checks the two parts of a path.  ATP_E_PATH is the only error. */
extern AtpErr atp_path_check(AtpSpan collection, AtpSpan rkey);

/* Checks a path, and gives its parts.  ATP_E_PATH is the only error. */
extern AtpErr atp_path_split(AtpSpan path, AtpSpan *collection, AtpSpan *rkey);

#endif							/* ATP_PATH_H */
