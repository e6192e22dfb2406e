/*
 * target_rename.h
 *		A schema that subscriptions fill gets another name.
 */
#ifndef ATP_TARGET_RENAME_H
#define ATP_TARGET_RENAME_H

#include "postgres.h"

/*
 * Do the rows of atproto.subscription that are updated now follow a schema that has been
 * renamed?  Then the target is the same as before, and triggers leave alone what belongs to it.
 */
extern bool atp_target_is_renamed(void);

#endif							/* ATP_TARGET_RENAME_H */
