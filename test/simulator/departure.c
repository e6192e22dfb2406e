/*
 * departure.c
 *		Accounts of an earlier network, which are deleted when this network's stream begins (--leave).
 *		The accounts are none of this network's: its state does not change.
 */
#include "departure.h"

#include "message.h"
#include "util.h"

#include <stdio.h>
#include <string.h>

static FILE *file;

void
departure_open(const Options *o)
{
	if (o->leave != NULL && (file = fopen(o->leave, "r")) == NULL)
		die("cannot read %s", o->leave);
}

bool
departure_write(Network *net, AtpCborWriter *w)
{
	Account		account = {.active = false, .status = "deleted"};
	char		line[DID_LEN + 2];

	if (file == NULL || fgets(line, sizeof line, file) == NULL)
		return false;
	if (strcspn(line, "\n") != DID_LEN)
		die("--leave: a line is no did:plc");
	memcpy(account.did, line, DID_LEN);
	account_write(net, &account, w);
	return true;
}

void
departure_close(void)
{
	if (file != NULL)
		fclose(file);
	file = NULL;
}
