/*
 * websocket.h
 *		The WebSocket protocol of a client, after its handshake: bytes in, messages
 *		and bytes out (wslay does the framing).
 *
 * No socket and no PostgreSQL header: whoever has received bytes offers them,
 * and sends what there is to send.  So unit tests can play any server.
 */
#ifndef ATP_WEBSOCKET_H
#define ATP_WEBSOCKET_H

#include "core/atp.h"
#include "net/drop.h"

/*
 * Who gets the messages.  want() says whether another one may come now
 * (back-pressure: otherwise no bytes are taken).  room() lends memory, *len bytes at
 * most, that bytes of the stream are best read into; NULL: read them elsewhere.
 * put() adds bytes to the message that is coming, and says whether it could; those that lie where
 * room() wanted them need not be copied, and so a message stays where it was
 * received.  message() takes what has been put, of that length, or says why it does
 * not.  None may raise an ERROR.
 */
typedef struct AtpReceiver
{
	bool		(*want) (void *arg);
	uint8_t    *(*room) (void *arg, size_t *len);
	bool		(*put) (void *arg, const uint8_t *data, size_t len);
	void		(*message) (void *arg, size_t len, bool is_text, AtpEnd *end);
	bool		text;			/* it takes texts ... */
	bool		binary;			/* ... and others: what it does not take ends the connection (E-10) */
	void	   *arg;
} AtpReceiver;

/* Fills a buffer with bytes that nobody can guess; false when it cannot. */
typedef bool (*AtpRandomFn) (void *buf, size_t len);

typedef struct AtpWebSocket AtpWebSocket;

/*
 * Why it ends is written to *end, and after that nothing is taken.  Returns
 * NULL when out of memory.
 */
extern AtpWebSocket *atp_websocket_start(const AtpReceiver *receiver, AtpRandomFn random, AtpEnd *end);

/* Would it take more bytes? */
extern bool atp_websocket_ready(const AtpWebSocket *ws);

/*
 * Offer bytes.  Returns how many were taken: fewer when it was not ready any more.
 * What receiver.room() lent may be written to again when all of them were.
 */
extern size_t atp_websocket_take(AtpWebSocket *ws, const uint8_t *data, size_t len);

/* What is to be sent, valid until the next call; *len is 0 when nothing is. */
extern const uint8_t *atp_websocket_output(AtpWebSocket *ws, size_t *len);

/* So much of it has been sent. */
extern void atp_websocket_sent(AtpWebSocket *ws, size_t len);

/* Is nothing taken because the answers to the peer's pings are not sent? */
extern bool atp_websocket_choked(const AtpWebSocket *ws);

/* There will be a ping to be sent, unless something else waits for that. */
extern void atp_websocket_ping(AtpWebSocket *ws);

/* There will be a text message to be sent, which is copied. */
extern void atp_websocket_text(AtpWebSocket *ws, const char *text, size_t len);

/* There will be a close frame to be sent. */
extern void atp_websocket_close(AtpWebSocket *ws, uint16_t code);

/* NULL is allowed. */
extern void atp_websocket_free(AtpWebSocket *ws);

#endif							/* ATP_WEBSOCKET_H */
