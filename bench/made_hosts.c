/*
 * made_hosts.c
 *		Hosts of a made network: made_hosts ACCOUNTS RECORDS PORT_FILE serves HTTP on a free port of 127.0.0.1, whose
 *		number it writes into the file.
 *
 *	com.atproto.sync.getRepo	the account's repository, made at the moment of the request
 *	com.atproto.sync.listRepos	all accounts, in the order of their numbers
 *
 * Every name of a host is served alike.  A network of a million accounts needs no disk here, and little memory.  One
 * thread; a request must come whole within a packet, as those of the fetcher do.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/repo/car_write.h"
#include "core/syntax/tid.h"
#include "made_account.h"

#define REQUEST_MAX		4096
#define PAGE_MAX		1000
#define HEAD_ROOM		256
#define BODY_ROOM		(16 * 1024 * 1024)

static MadeNetwork network;
static MadeRepo *repo;
static char room[HEAD_ROOM + BODY_ROOM];
static char *const body = room + HEAD_ROOM;
static size_t body_len;

/* A parameter of the request's query, decoded; returns its length. */
static size_t
parameter(const char *request, const char *name, char *out, size_t max)
{
	const char *at = strstr(request, name);
	size_t		n = 0;

	for (at = at == NULL ? "" : at + strlen(name); n < max && *at != '\0' && *at != '&' && *at != ' '; n++)
	{
		unsigned	byte;

		if (*at == '%' && sscanf(at + 1, "%2x", &byte) == 1)
		{
			out[n] = (char) byte;
			at += 3;
		}
		else
			out[n] = *at++;
	}
	return n;
}

static void
put(const char *format,...) __attribute__((format(printf, 1, 2)));

static void
put(const char *format,...)
{
	va_list		args;

	va_start(args, format);
	body_len += (size_t) vsnprintf(body + body_len, BODY_ROOM - body_len, format, args);
	va_end(args);
	if (body_len >= BODY_ROOM)
		made_die("an answer is too long");
}

static const char *
get_repo(const char *request)
{
	char		did[MADE_DID_LEN + 1];
	uint64_t	account = made_account_of(&network, did, parameter(request, "did=", did, sizeof(did)));
	AtpCborWriter car = {.buf = (uint8_t *) body, .cap = BODY_ROOM};

	if (account >= network.accounts)
	{
		put("{\"error\":\"RepoNotFound\",\"message\":\"no such account\"}");
		return "400 Bad Request";
	}
	made_account_build(repo, &network, account, 0);
	atp_car_put_header(&car, made_repo_commit_cid(repo));
	for (size_t i = made_repo_blocks(repo); i-- > 0;)
		atp_cbor_put_raw(&car, made_repo_section(repo, i).ptr, made_repo_section(repo, i).len);
	if (car.len > car.cap)
		made_die("a repository is too long");
	body_len = car.len;
	return "200 OK";
}

/* The heads are not the commits' CIDs, which would have to be computed: the fetcher does not compare them. */
static const char *
list_repos(const char *request)
{
	char		cursor[32] = "";
	char		did[MADE_DID_LEN + 1];
	char		rev[ATP_TID_TEXT];
	uint64_t	account;
	uint64_t	end;

	cursor[parameter(request, "cursor=", cursor, sizeof(cursor) - 1)] = '\0';
	account = strtoull(cursor, NULL, 10);
	end = account + PAGE_MAX < network.accounts ? account + PAGE_MAX : network.accounts;
	put("{\"repos\":[");
	for (uint64_t i = account; i < end; i++)
	{
		made_did(i, did);
		atp_tid_format(made_account_rev(&network, i, 0), rev);
		put("%s{\"did\":\"%s\",\"head\":\"bafyreiaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\",\"rev\":\"%.*s\",\"active\":true}",
			i == account ? "" : ",", did, ATP_TID_TEXT, rev);
	}
	if (end < network.accounts)
		put("],\"cursor\":\"%llu\"}", (unsigned long long) end);
	else
		put("]}");
	return "200 OK";
}

/* False when the client has closed the connection. */
static bool
answer(int fd)
{
	char		request[REQUEST_MAX];
	ssize_t		got = recv(fd, request, sizeof(request) - 1, 0);
	const char *status;
	bool		is_repo;
	int			head_len;
	char		head[HEAD_ROOM];

	if (got <= 0)
		return false;
	request[got] = '\0';
	if (strstr(request, "\r\n\r\n") == NULL)
		made_die("a request has come in parts");
	body_len = 0;
	is_repo = strstr(request, "sync.getRepo?") != NULL;
	if (is_repo)
		status = get_repo(request);
	else if (strstr(request, "sync.listRepos") != NULL)
		status = list_repos(request);
	else
	{
		put("{\"error\":\"MethodNotImplemented\",\"message\":\"not here\"}");
		status = "501 Not Implemented";
	}
	head_len = snprintf(head, sizeof(head), "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n\r\n", status,
						is_repo && *status == '2' ? "application/vnd.ipld.car" : "application/json", body_len);
	memcpy(body - head_len, head, (size_t) head_len);
	for (size_t sent = 0, all = (size_t) head_len + body_len; sent < all;)
	{
		ssize_t		n = send(fd, body - head_len + sent, all - sent, MSG_NOSIGNAL);

		if (n < 0)
			return false;
		sent += (size_t) n;
	}
	return true;
}

static int
listen_here(const char *port_file)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t	len = sizeof(address);
	int			fd = socket(AF_INET, SOCK_STREAM, 0);
	char		path[4096];
	FILE	   *f;

	if (fd < 0 || bind(fd, (struct sockaddr *) &address, len) != 0 || listen(fd, 1024) != 0 || getsockname(fd, (struct sockaddr *) &address, &len) != 0)
		made_die("cannot listen");
	snprintf(path, sizeof(path), "%s.new", port_file);
	f = fopen(path, "w");
	if (f == NULL || fprintf(f, "%d\n", ntohs(address.sin_port)) < 0 || fclose(f) != 0 || rename(path, port_file) != 0)
		made_die("cannot write the port");
	return fd;
}

static void
watch(int poll, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

	if (epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event) != 0)
		made_die("cannot watch a connection");
}

int
main(int argc, char **argv)
{
	int			poll = epoll_create1(0);
	int			listening;

	if (argc == 4)
		network = (MadeNetwork) {.accounts = strtoull(argv[1], NULL, 10), .records = strtoull(argv[2], NULL, 10), .first_like = strtoull(argv[2], NULL, 10)};
	if (network.accounts == 0 || network.records == 0)
		made_die("usage: made_hosts ACCOUNTS RECORDS PORT_FILE");
	made_subjects = network.accounts;
	repo = made_repo_new(network.records);
	listening = listen_here(argv[3]);
	watch(poll, listening);
	for (;;)
	{
		struct epoll_event events[64];
		int			n = epoll_wait(poll, events, 64, -1);

		if (n < 0 && errno != EINTR)
			made_die("cannot wait");
		for (int i = 0; i < n; i++)
		{
			int			fd = events[i].data.fd;

			if (fd == listening)
			{
				fd = accept(listening, NULL, NULL);
				if (fd >= 0)
					watch(poll, fd);
			}
			else if (!answer(fd))
				close(fd);
		}
	}
}
