/*
 * stream_options.h
 *		Options of a subscription for some kinds of streams only, and options with a syntax of their own.
 *
 * option.h has the options with a fixed set of values.
 */
#ifndef ATP_STREAM_OPTIONS_H
#define ATP_STREAM_OPTIONS_H

#include "config/spi.h"
#include "net/endpoint.h"
#include "source.h"

/* Raise an ERROR, which names the option, if an option of a row of atproto.subscription is wrong, or not for this kind of stream. */
extern void atp_stream_options_check(AtpTuple row, const AtpStreamKind *source, const AtpEndpoint *ep);

#endif							/* ATP_STREAM_OPTIONS_H */
