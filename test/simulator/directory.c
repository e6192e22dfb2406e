/*
 * directory.c
 *		Writes the files of --directory, in the order of time: documents, one JSON
 *		object a line, as a directory's server reads them; and keys, columns, for
 *		tests that need no server.
 */
#include "directory.h"

#include "sign.h"
#include "social.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#define BASE58_MAX	64			/* characters of a Multikey: 48, and the z */

static FILE *documents;
static FILE *keys;

static FILE *
open_file(const char *dir, const char *name)
{
	char		path[4096];
	FILE	   *f;

	snprintf(path, sizeof path, "%s/%s", dir, name);
	if ((f = fopen(path, "w")) == NULL)
		die("cannot write %s", path);
	return f;
}

void
directory_open(const Options *o)
{
	if (o->directory == NULL)
		return;
	if (mkdir(o->directory, 0777) != 0 && errno != EEXIST)
		die("cannot make %s", o->directory);
	documents = open_file(o->directory, "documents");
	keys = open_file(o->directory, "keys");
}

/* "z" and base58btc */
static const char *
multibase(const uint8_t *bytes, size_t n, char out[BASE58_MAX])
{
	static const char digit[] = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
	uint8_t		number[ATP_MULTIKEY_LEN];
	size_t		at = BASE58_MAX - 1;
	size_t		first = 0;		/* digit of number that is not 0 */

	memcpy(number, bytes, n);
	out[at] = '\0';
	while (first < n)
	{
		unsigned	rest = 0;

		for (size_t i = first; i < n; i++)
		{
			rest = rest << 8 | number[i];
			number[i] = (uint8_t) (rest / 58);
			rest %= 58;
		}
		out[--at] = digit[rest];
		while (first < n && number[first] == 0)
			first++;
	}
	out[--at] = 'z';
	return out + at;
}

static void
put_hex(FILE *f, const uint8_t *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		fprintf(f, "%02x", bytes[i]);
}

void
directory_tell(Network *net, const Account *a, int64_t from, bool lags)
{
	uint8_t		key[ATP_MULTIKEY_LEN] = {0xe7, 0x01};
	char		text[BASE58_MAX];
	char		handle[HANDLE_MAX];

	if (documents == NULL)
		return;
	if (a->curve == ATP_P256)
	{
		key[0] = 0x80;
		key[1] = 0x24;
	}
	public_key(a, key + 2);
	if (net->options->social)
		social_handle(net, a, handle);
	else
		snprintf(handle, sizeof handle, "user-%u.example.com", (unsigned) (a - net->accounts));
	fprintf(documents,
			"{\"seq\":%lld,\"lags\":%s,\"did\":\"%s\",\"document\":{\"id\":\"%s\",\"alsoKnownAs\":[\"at://%s\"],"
			"\"verificationMethod\":[{\"id\":\"%s#atproto\",\"type\":\"Multikey\",\"controller\":\"%s\","
			"\"publicKeyMultibase\":\"%s\"}],\"service\":[{\"id\":\"#atproto_pds\","
			"\"type\":\"AtprotoPersonalDataServer\",\"serviceEndpoint\":\"https://pds%u.example.com\"}]}}\n",
			(long long) net->options->after + from, lags ? "true" : "false", a->did, a->did, handle, a->did, a->did,
			multibase(key, sizeof key, text), a->host);
	fprintf(keys, "%s\t%lld\t", a->did, (long long) net->options->after + from);
	put_hex(keys, key, sizeof key);
	putc('\t', keys);
	put_hex(keys, a->secret, sizeof a->secret);
	fprintf(keys, "\tpds%u.example.com\t%s\n", a->host, handle);
}

void
directory_forget(const Network *net, const Account *a, int64_t from)
{
	if (documents != NULL)
		fprintf(documents, "{\"seq\":%lld,\"lags\":false,\"did\":\"%s\",\"document\":null}\n", (long long) net->options->after + from, a->did);
}

void
directory_close(void)
{
	if (documents != NULL && (ferror(documents) || ferror(keys) || fclose(documents) != 0 || fclose(keys) != 0))
		die("cannot write documents and keys");
}
