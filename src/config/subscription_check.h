/*
 * subscription_check.h
 *		Inserts rows into atproto.subscription that may run at once: for subscribe().
 */
#ifndef ATP_SUBSCRIPTION_CHECK_H
#define ATP_SUBSCRIPTION_CHECK_H

#include "postgres.h"

#include "config/spi.h"

/* Insert a row; false: the name is in use.  SPI is connected. */
extern bool atp_subscription_insert(const char *const *columns, const AtpArg *values, int n);

#endif							/* ATP_SUBSCRIPTION_CHECK_H */
