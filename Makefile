# AT Protocol in PostgreSQL.  make; make install; make check; make demo; make bench;
# make lint; make dist; make release.  (README.md and CONTRIBUTING.md say what each does.)

EXTENSION = atproto
MODULE_big = atproto
EXTVERSION := $(shell sed -n "s/^default_version = '\(.*\)'/\1/p" atproto.control)

# Each layer's SQL stands beside its C; the install script is put together from
# them.  What all types have stands once, in src/types/*.sql.in.
SQL_TYPES = did handle nsid tid recordkey cidlink aturi noshuri
SQL_PARTS = src/atproto.sql $(SQL_TYPES:%=src/types/type_%.sql) src/types/try.sql src/types/aturi_from.sql src/types/like.sql src/data/data.sql src/data/type_dagcbor.sql \
	src/config/subscription.sql src/config/web_address.sql src/lexicon/lexicon.sql src/lexicon/valid.sql src/lexicon/bundled.sql \
	src/identity/identity.sql src/tables/base/tables.sql src/tables/base/history.sql src/tables/records/table_link.sql \
	src/tables/plc/plc.sql src/tables/plc/plc_request.sql src/tables/out/out.sql src/tables/repos/held.sql src/tables/base/proved.sql src/tables/repos/status_request.sql src/tables/check/check.sql src/tables/base/blocked.sql src/tables/erase/erase.sql \
	src/fetch/identities/task_identity.sql src/fetch/engine/fetch.sql src/fetch/repositories/repo_job.sql \
	src/fetch/repositories/task_repo.sql src/fetch/servers/server_info.sql src/fetch/servers/dictionary.sql \
	src/fetch/repositories/proof.sql src/fetch/repositories/repo_progress.sql src/process/manager/grants.sql src/process/manager/control.sql src/process/status/limits.sql
DATA_built = atproto--$(EXTVERSION).sql
# Scripts of released versions, and from each to the next (CONTRIBUTING.md).
DATA = $(filter-out upgrade/$(DATA_built),$(wildcard upgrade/*.sql))
# Until the first release, scripts of one version differ.  So script and library have a digest of the script, and the
# processes of a library run only with objects of its own script (config/extension.c).
ifeq ($(RELEASED)$(wildcard upgrade/*.sql),)
SCRIPT_DIGEST := $(shell awk -v dir=src/types -f src/types/include.awk $(SQL_PARTS) | { sha256sum || shasum -a 256; } | cut -c1-32)
endif

SRCS = $(sort $(wildcard src/*.c src/*/*.c src/*/*/*.c))
# Tests send requests of their own through the fetcher.
ifneq ($(findstring ATP_INJECTION_POINTS,$(PROFILE)),)
SRCS += test/probe/probe.c
endif
OBJS = $(SRCS:.c=.o)

PG_CONFIG ?= pg_config
PG_CPPFLAGS = -Isrc -DATP_EXTVERSION='"$(EXTVERSION)"' \
	-isystem $(shell $(PG_CONFIG) --includedir-server 2>/dev/null)
# Signatures by secp256k1 need its library; without it everything else is built.
SECP256K1 := $(shell (pkg-config --exists libsecp256k1 || \
	cc -E -include secp256k1.h -x c /dev/null) >/dev/null 2>&1 && echo yes)
ifdef SECP256K1
PG_CPPFLAGS += -DATP_SECP256K1
endif
# TXT records, by which handles are verified, need c-ares; likewise.
CARES := $(shell (pkg-config --exists libcares || \
	cc -E -include ares.h -x c /dev/null) >/dev/null 2>&1 && echo yes)
ifdef CARES
PG_CPPFLAGS += -DATP_CARES
endif
# WAIT=poll: the fetcher waits by poll(), as it does on all systems but Linux (src/net/poll.h).
ifeq ($(WAIT),poll)
PG_CPPFLAGS += -DATP_WAIT_POLL
endif
# No -std: PostgreSQL's headers use what the compiler's default standard has, as its configure has found.
PG_CFLAGS = -Wall -Wextra -Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers
# A function without a declaration is one that this minor version of PostgreSQL does not have: the server would not start.
PG_CFLAGS += -Werror=implicit-function-declaration
# The compiler writes down beside each object which headers it has read.
PG_CFLAGS += -MMD -MP
ifdef WERROR
PG_CFLAGS += -Werror
endif
# SAN=address,undefined: instrumented, for a server that has the runtime preloaded
# (test/tools/check does both).
ifdef SAN
PG_CFLAGS += -fsanitize=$(SAN) -fno-sanitize-recover=undefined -O1
endif
# COVERAGE: each process counts the lines that it runs (make coverage).  -O1 keeps a line's code on the line.
ifdef COVERAGE
PG_CFLAGS += --coverage -O1
endif
SHLIB_LINK = $(if $(COVERAGE),--coverage) $(if $(SAN),-fsanitize=$(SAN)) -lcbor -lwslay -lcurl -lz -lzstd -lcrypto $(if $(SECP256K1),-lsecp256k1) $(if $(CARES),-lcares)

REGRESS = $(sort $(patsubst sql/%.sql,%,$(wildcard sql/*.sql)))
TAP_TESTS = 1
PROVE_TESTS = $(sort $(wildcard test/t/*/*.pl))

EXTRA_CLEAN = test/probe/*.o test/probe/*.d src/*.o src/*/*.o src/*/*/*.o src/*.d src/*/*.d src/*/*/*.d src/*/*.bc src/*/*/*.bc

# These do their own building, elsewhere, so they work on a machine where
# PostgreSQL is not installed yet and PGXS cannot be included.
ifneq ($(filter check coverage indent demo demo-stop bench packages lint dist release,$(MAKECMDGOALS)),)

packages:
	test/tools/install-packages
check:
	test/tools/check
coverage:
	COVERAGE="$${COVERAGE:-$(CURDIR)/coverage}" TESTS="$${TESTS:-unit regress$${TAP:+ tap}}" test/tools/check
indent:
	test/tools/indent
demo:
	demo/demo start
demo-stop:
	demo/demo stop
bench:
	bench/run
lint:
	test/lint/run

# What a release consists of: the committed files, named as PGXN wants it.
DISTVERSION = $(shell sed -n 's/^    "version": "\(.*\)",/\1/p' META.json)
dist:
	git archive --prefix=atproto-$(DISTVERSION)/ -o atproto-$(DISTVERSION).tar.gz HEAD
	git archive --prefix=atproto-$(DISTVERSION)/ -o atproto-$(DISTVERSION).zip HEAD
# All files of a release, made and checked; nothing is tagged.
release:
	release/run

.PHONY: packages check coverage indent demo demo-stop bench lint dist release

else

PGXS := $(shell $(PG_CONFIG) --pgxs)
ifeq ($(PGXS),)
$(error $(PG_CONFIG) did not run: install postgresql-server-dev-NN, or name the pg_config of your server: make PG_CONFIG=/path/to/pg_config)
endif
ifeq ($(wildcard $(PGXS)),)
$(error $(PG_CONFIG) names $(PGXS), which does not exist: install the development files of this server (Debian: postgresql-server-dev-NN), or name another server: make PG_CONFIG=/path/to/pg_config)
endif
include $(PGXS)

# PGXS would make any .sql of a .sql.in beside it that is newer, such as src/types/try.sql.
%.sql: %.sql.in

DIGEST_FILE = src/config/script_digest.d
-include $(filter-out $(DIGEST_FILE),$(wildcard src/*.d src/*/*.d src/*/*/*.d test/probe/*.d))

SQL_SOURCES = $(SQL_PARTS) src/types/include.awk $(wildcard src/types/*.sql.in)
atproto--$(EXTVERSION).sql: $(SQL_SOURCES) src/config/install_script.sql
	awk -v dir=src/types -f src/types/include.awk $(SQL_PARTS) $(if $(SCRIPT_DIGEST),src/config/install_script.sql) | sed 's/@DIGEST@/$(SCRIPT_DIGEST)/' > $@.tmp && mv $@.tmp $@

# Objects with the version in them are compiled anew after a change of the version.
VERSION_OBJS := $(patsubst %.c,%.o,$(shell grep -l ATP_EXTVERSION $(SRCS)))
$(VERSION_OBJS) $(VERSION_OBJS:.o=.bc): atproto.control

# The digest of the objects that were made last.  The file changes, and so script and library are made anew, when another
# digest comes, and when the release takes the digest away: only one of them with a digest, no process would run.
$(DIGEST_FILE): always
	@echo '# $(SCRIPT_DIGEST)' | cmp -s - $@ || echo '# $(SCRIPT_DIGEST)' > $@
atproto--$(EXTVERSION).sql src/config/extension.o src/config/extension.bc: $(DIGEST_FILE)
ifdef SCRIPT_DIGEST
src/config/extension.o src/config/extension.bc: override CPPFLAGS += -DATP_SCRIPT_DIGEST='"$(SCRIPT_DIGEST)"'
endif

# One kind of test each, on a server that is running (installcheck runs both).
check-regress:
	$(pg_regress_installcheck) $(REGRESS_OPTS) $(REGRESS)
check-tap:
	$(prove_installcheck)

# The page that says what the catalogue does (test/tools/reference).
reference:
	ATPROTO_REFERENCE=write $(MAKE) check-tap PROVE_TESTS=test/t/docs/441_reference.pl
# The list of the stable objects, at a release (test/tools/promises).
promises:
	ATPROTO_PROMISES=write $(MAKE) check-tap PROVE_TESTS=test/t/docs/445_promises.pl

# Tests of src/core without a server, under sanitizers; fuzz inputs replayed.
check-unit:
	$(MAKE) -C test check-unit

.PHONY: always check-regress check-tap check-unit reference promises

endif
