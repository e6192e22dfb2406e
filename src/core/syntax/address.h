/*
 * address.h
 *		IP addresses: which of them lie on the public Internet (rule W-51).
 */
#ifndef ATP_ADDRESS_H
#define ATP_ADDRESS_H

#include "core/atp.h"

/*
 * What is an IPv4 address in another form is one: mapped (::ffff:a.b.c.d), or as
 * NAT64 translates it (64:ff9b::a.b.c.d).  Its bytes are the first four.
 */
typedef struct AtpAddress
{
	bool		v4;
	uint8_t		bytes[16];
} AtpAddress;

/* Of the bytes that a socket's address has, 4 or 16 of them. */
extern AtpAddress atp_address_of(const uint8_t *bytes, size_t n);

/*
 * Of a text: four decimal numbers without leading zeros, or IPv6 with all its
 * abbreviations, without brackets and zone.  ATP_E_ADDRESS when it is none.
 */
extern AtpErr atp_address_parse(const char *s, size_t n, AtpAddress *address, size_t *at);

/* Are its first bits those of net?  An IPv4 address is in no network of IPv6. */
extern bool atp_address_in(const AtpAddress *address, const AtpAddress *net, unsigned bits);

/* False for what is private, local, reserved, for documentation, multicast, or a tunnel. */
extern bool atp_address_is_public(const AtpAddress *address);

#endif							/* ATP_ADDRESS_H */
