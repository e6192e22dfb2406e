/*
 * ca_file.c
 *		Reads the file of certificate authorities named by a subscription.
 *
 * libcurl does not read the file, because the path comes from a subscription's owner: libcurl would
 * open a FIFO or a device, and block on it.  This file opens only regular files.
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/ca_file.h"
#include "storage/fd.h"

static const char *
why_unreadable(const char *path)
{
	return psprintf("could not read the certificate authorities in \"%s\": %m", path);
}

/* Read all of an open regular file. */
static char *
read_all(int fd, const char *path, size_t *len, const char **why)
{
	char	   *data = palloc(ATP_CA_FILE_MAX + 1);
	ssize_t		n;

	*len = 0;
	while (*len <= ATP_CA_FILE_MAX)
	{
		n = read(fd, data + *len, ATP_CA_FILE_MAX + 1 - *len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			*why = why_unreadable(path);
		if (n <= 0)
			return data;
		*len += n;
	}
	*why = psprintf("the file of certificate authorities \"%s\" has more than %d bytes", path, ATP_CA_FILE_MAX);
	return data;
}

/* OpenSSL's message of a file without a certificate would not name the file. */
static bool
has_certificate(const char *data, size_t len)
{
	static const char *const labels[] = {"-----BEGIN CERTIFICATE-----", "-----BEGIN TRUSTED CERTIFICATE-----", "-----BEGIN X509 CERTIFICATE-----"};

	for (size_t i = 0; i < len; i++)
		for (int l = 0; l < lengthof(labels); l++)
			if (data[i] == '-' && len - i >= strlen(labels[l]) && memcmp(data + i, labels[l], strlen(labels[l])) == 0)
				return true;
	return false;
}

char *
atp_ca_file_read(const char *path, size_t *len, const char **why)
{
	struct stat st;
	char	   *data = NULL;
	int			fd = -1;

	*why = NULL;
	/* stat() comes before open(), since opening a device can have effects */
	if (stat(path, &st) != 0)
		*why = why_unreadable(path);
	else if (S_ISREG(st.st_mode))
	{
		fd = BasicOpenFile(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
		if (fd < 0 || fstat(fd, &st) != 0)
			*why = why_unreadable(path);
	}
	if (*why == NULL && !S_ISREG(st.st_mode))
		*why = psprintf("the certificate authorities \"%s\" are no regular file", path);
	if (*why == NULL)
		data = read_all(fd, path, len, why);
	if (fd >= 0)
		close(fd);
	if (*why == NULL && !has_certificate(data, *len))
		*why = psprintf("the file of certificate authorities \"%s\" has no certificate in PEM format", path);
	return *why == NULL ? data : NULL;
}
