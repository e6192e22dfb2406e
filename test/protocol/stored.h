/*
 * stored.h
 *		Is this the stored form of a valid value?  The server need not ask: it
 *		makes stored forms out of texts alone.  Tests hold it to that.
 */
#ifndef ATP_STORED_H
#define ATP_STORED_H

#include "core/syntax/uri.h"

extern AtpErr atp_did_check_stored(const uint8_t *stored, size_t n, size_t *at);
extern AtpErr atp_rkey_check_stored(const uint8_t *stored, size_t n, size_t *at);
extern AtpErr atp_uri_check_stored(AtpScheme scheme, const uint8_t *stored, size_t n, size_t *at);

#endif							/* ATP_STORED_H */
