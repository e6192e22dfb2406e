/*
 * removals.h
 *		Which removals of an account's records a batch needs, while an archive is read.
 */
#ifndef ATP_REMOVALS_H
#define ATP_REMOVALS_H

#include "tables/repos/repo.h"

/* Take out removals that a later removal in the batch does, too.  effects[0] is the effect of event lo. */
extern void atp_removals_join(const AtpApply *a, AtpEffect *effects, int lo, int hi);

#endif							/* ATP_REMOVALS_H */
