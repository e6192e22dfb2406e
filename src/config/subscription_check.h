/*
 * subscription_check.h
 *		How a row gets into atproto.subscription that may run at once.
 */
#ifndef ATP_SUBSCRIPTION_CHECK_H
#define ATP_SUBSCRIPTION_CHECK_H

#include "postgres.h"

#include "config/spi.h"

/* False: the name is taken.  SPI is connected. */
extern bool atp_subscription_insert(const char *const *columns, const AtpArg *values, int n);

#endif							/* ATP_SUBSCRIPTION_CHECK_H */
