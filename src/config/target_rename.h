/*
 * target_rename.h
 *		ALTER SCHEMA … RENAME of a schema that subscriptions fill.
 */
#ifndef ATP_TARGET_RENAME_H
#define ATP_TARGET_RENAME_H

#include "postgres.h"

/*
 * Is the present UPDATE of atproto.subscription made for a renamed schema?  Then the target is still the same
 * schema, and triggers must not treat it as a new target.
 */
extern bool atp_target_is_renamed(void);

#endif							/* ATP_TARGET_RENAME_H */
