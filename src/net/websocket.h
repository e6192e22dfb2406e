/*
 * websocket.h
 *		The WebSocket protocol of a client after the handshake: bytes in, messages and
 *		bytes out (wslay does the framing).
 *
 * No socket and no PostgreSQL header: the caller receives bytes and offers them here, and sends the
 * output.  So unit tests can play any server.
 */
#ifndef ATP_WEBSOCKET_H
#define ATP_WEBSOCKET_H

#include "core/atp.h"
#include "net/drop.h"

/*
 * The receiver of the messages; no callback may raise an ERROR.
 *
 * want(): may another message come now?  If not, no bytes are taken (back-pressure).
 *
 * room() lends memory of *len bytes at most, into which bytes of the stream are best read; NULL: read them
 * elsewhere. put() appends bytes to the current message; false when out of memory.  Bytes already at the
 * place lent by room() need no copy, so a message stays where it was received.
 *
 * message(): the message is complete, with the bytes from put() so far, len in total.  The receiver takes it,
 * or records in *end why not.
 */
typedef struct AtpReceiver
{
	bool		(*want) (void *arg);
	uint8_t    *(*room) (void *arg, size_t *len);
	bool		(*put) (void *arg, const uint8_t *data, size_t len);
	void		(*message) (void *arg, size_t len, bool is_text, AtpEnd *end);
	bool		text;			/* accepts text messages */
	bool		binary;			/* accepts binary messages; a message of a kind not accepted ends the connection (E-10) */
	void	   *arg;
} AtpReceiver;

/* Fills a buffer with unpredictable bytes; false on failure. */
typedef bool (*AtpRandomFn) (void *buf, size_t len);

typedef struct AtpWebSocket AtpWebSocket;

/*
 * Create the state of a connection.  The end of the WebSocket is recorded in *end; after that no bytes are
 * taken.  Returns NULL when out of memory.
 */
extern AtpWebSocket *atp_websocket_start(const AtpReceiver *receiver, AtpRandomFn random, AtpEnd *end);

/* Does the WebSocket take more bytes now? */
extern bool atp_websocket_ready(const AtpWebSocket *ws);

/*
 * Offer bytes.  Returns how many were taken: fewer than len when atp_websocket_ready() became false meanwhile.
 * Memory lent by room() may be overwritten once all its bytes were taken.
 */
extern size_t atp_websocket_take(AtpWebSocket *ws, const uint8_t *data, size_t len);

/* The bytes to send, valid until the next call; *len is 0 when there is nothing to send. */
extern const uint8_t *atp_websocket_output(AtpWebSocket *ws, size_t *len);

/* Tell that len bytes of the output have been sent. */
extern void atp_websocket_sent(AtpWebSocket *ws, size_t len);

/* Are no bytes taken because too many answers to the peer's pings are still unsent? */
extern bool atp_websocket_choked(const AtpWebSocket *ws);

/* Queue a ping, unless output is pending already. */
extern void atp_websocket_ping(AtpWebSocket *ws);

/* Queue a text message, which is copied. */
extern void atp_websocket_text(AtpWebSocket *ws, const char *text, size_t len);

/* Queue a close frame. */
extern void atp_websocket_close(AtpWebSocket *ws, uint16_t code);

/* NULL is allowed. */
extern void atp_websocket_free(AtpWebSocket *ws);

#endif							/* ATP_WEBSOCKET_H */
