/*
 * update_effects.h
 *		What an UPDATE of a table does beside the UPDATE.
 */
#ifndef ATP_UPDATE_EFFECTS_H
#define ATP_UPDATE_EFFECTS_H

#include "postgres.h"

/*
 * Would an UPDATE fire triggers of users, or is the table published?  Then the UPDATE may not be hidden from readers of
 * slots (changes/untold.h): what a trigger writes, and what another server's subscription takes, would be hidden, too.
 * Locks the table and its partitions as the UPDATE will, so that the answer stays true.
 */
extern bool atp_update_has_effects(Oid relid);

#endif							/* ATP_UPDATE_EFFECTS_H */
