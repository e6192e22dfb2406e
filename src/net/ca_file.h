/*
 * ca_file.h
 *		Reads the file of certificate authorities named by a subscription.
 */
#ifndef ATP_CA_FILE_H
#define ATP_CA_FILE_H

#include "postgres.h"

#define ATP_CA_FILE_MAX		(1024 * 1024)	/* the system's file has a quarter of this size */

/*
 * Read the file, palloc'd in the current context.  Returns NULL on failure, with the reason in *why, which
 * quotes nothing of the file's contents: a subscription's owner must not read the server's files through
 * error messages.
 */
extern char *atp_ca_file_read(const char *path, size_t *len, const char **why);

#endif							/* ATP_CA_FILE_H */
