/*
 * departure.h
 *		Accounts of an earlier network, which are deleted when this network's stream begins (--leave).
 */
#ifndef SIM_DEPARTURE_H
#define SIM_DEPARTURE_H

#include "network.h"

extern void departure_open(const Options *o);

/* Writes an #account of the next of these accounts; false after the last of them. */
extern bool departure_write(Network *net, AtpCborWriter *w);

extern void departure_close(void);

#endif							/* SIM_DEPARTURE_H */
