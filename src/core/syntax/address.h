/*
 * address.h
 *		IP addresses: parsing, membership in a network, and whether an address lies on the public Internet
 *		(rule W-51).
 */
#ifndef ATP_ADDRESS_H
#define ATP_ADDRESS_H

#include "core/atp.h"

/*
 * An IPv4 address written as IPv6 counts as IPv4: mapped (::ffff:a.b.c.d), or translated by NAT64
 * (64:ff9b::a.b.c.d).  Its four bytes come first in bytes.  Otherwise ::ffff:10.0.0.1 would reach a private
 * host past the list of IPv4 networks.
 */
typedef struct AtpAddress
{
	bool		v4;
	uint8_t		bytes[16];
} AtpAddress;

/* From the 4 or 16 bytes of a socket's address. */
extern AtpAddress atp_address_of(const uint8_t *bytes, size_t n);

/*
 * From text: four decimal numbers without leading zeros, or IPv6 with all its abbreviations, without brackets
 * and zone.  ATP_E_ADDRESS for any other text.
 */
extern AtpErr atp_address_parse(const char *s, size_t n, AtpAddress *address, size_t *at);

/* Does address lie in the network net/bits?  An IPv4 address lies in no IPv6 network. */
extern bool atp_address_in(const AtpAddress *address, const AtpAddress *net, unsigned bits);

/* False for private, local, reserved, documentation and multicast addresses, and for tunnels. */
extern bool atp_address_is_public(const AtpAddress *address);

#endif							/* ATP_ADDRESS_H */
