/*
 * filter.h
 *		The filters of a subscription (F-14).
 */
#ifndef ATP_FILTER_H
#define ATP_FILTER_H

#include "postgres.h"

#include "config/subscription.h"
#include "core/atp.h"

extern bool atp_wants_did(const AtpSettings *settings, const struct varlena *did);
extern bool atp_wants_collection(const AtpSettings *settings, AtpSpan collection);

#endif							/* ATP_FILTER_H */
