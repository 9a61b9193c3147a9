# weft: build, install, check, test. `make help` lists the verbs.

MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
.DELETE_ON_ERROR:
SHELL := /bin/sh

PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
MANDIR ?= $(PREFIX)/share/man
DESTDIR ?=
INSTALL ?= install
CC ?= cc
OBJCOPY ?= objcopy
# rustup puts cargo where a shell started before it does not look.
CARGO ?= $(or $(shell command -v cargo),$(wildcard $(HOME)/.cargo/bin/cargo),cargo)
CARGOFLAGS ?= --locked
export CARGO CC

VERSION := $(shell sed -n 's/^version = "\(.*\)"$$/\1/p;/^version/q' Cargo.toml)
MAJOR := $(firstword $(subst ., ,$(VERSION)))

# A build of its own, not `cargo build --release`: with the rlib among the crate types cargo leaves
# link-time optimisation out, and tests must not replace what is installed.
DIST := $(or $(CARGO_TARGET_DIR),target)/dist
CARGO_OUT := $(DIST)/release
OUT := target/weft
SONAME := libweft.so.$(MAJOR)
SHARED := libweft.so.$(VERSION)
LIBS := $(OUT)/libweft.a $(OUT)/$(SHARED)
STAGE := $(CURDIR)/target/stage
MAN := $(notdir $(wildcard man/*.[1-9]))

SOURCES := Cargo.toml Cargo.lock build.rs $(shell find src -name '*.rs')

.PHONY: all
all: $(LIBS) $(OUT)/$(SONAME) $(OUT)/libweft.so

# nginx-module, apache-module and run. Included behind `all`, which stays what a bare `make` does.
include nginx-glue/module.mk
include apache-glue/module.mk
include haproxy-glue/module.mk
include packaging/module.mk

.PHONY: help
help:
	@echo 'make                  the library, static and shared, in $(OUT)'
	@echo 'make run              nginx with weft on a free port, and what it gains'
	@echo 'make test             all tests; SUITES="rust symbols .." for some'
	@echo 'make check            formatting, lints, header, symbols, licences; check-NAME for one'
	@echo 'make fuzz             each fuzz target for T=60 seconds; FUZZ="zstd calls .." for some'
	@echo 'make soak             a mixed load on nginx under sanitizers, for T=600 seconds'
	@echo 'make soak-haproxy     the same for HAProxy'
	@echo 'make install          to PREFIX (/usr/local), LIBDIR, INCLUDEDIR, MANDIR, under DESTDIR; also uninstall'
	@echo 'make nginx-module     the module for the nginx installed, or NGINX_SRC=DIR'
	@echo 'make test-nginx-versions  tests/nginx on every nginx; VERSIONS="1.28 static .." for some'
	@echo 'make apache-module    the module for the Apache of apxs; make run-apache shows it'
	@echo 'make deb              Debian packages, in target/deb; make rpm: of the library, in target/rpm'
	@echo 'make test-packages    they install, serve, upgrade and purge in a clean Debian 12; as root'
	@echo 'make haproxy          HAProxy with the filter in it, from the source package; make run-haproxy shows it'
	@echo 'make header           include/weft.h from src/ffi'
	@echo 'make bench            weft beside its peers, target/bench/report.html; BENCH="latency size" for some, QUICK=1'
	@echo 'make bench-docs       docs/benchmarks.md from the last run'
	@echo 'make deny             licences, bans and sources with cargo-deny'
	@echo 'make clean            removes target'

# ---- the library

# The verbs that promise to work on a fresh machine install the compiler first; `make` itself and
# `make install` leave the system alone.
.PHONY: packages
packages:
	@tools/install-packages rust build
ifneq ($(filter run nginx-% run-apache apache-module run-haproxy haproxy,$(MAKECMDGOALS)),)
$(CARGO_OUT)/libweft.a $(CARGO_OUT)/libweft.so: | packages
endif

# make decides from the times whether to call cargo, so that `sudo make install` needs none.
# touch: cargo leaves its output alone when the sources only look newer. With the time at which the
# build began: a source that was changed meanwhile is newer than what does not have it.
# ZSTD_TRACE: zstd would call weak ZSTD_trace_* functions, and find those of a host that traces a
# libzstd of its own.
$(CARGO_OUT)/libweft.a $(CARGO_OUT)/libweft.so &: $(SOURCES)
	@mkdir -p $(CARGO_OUT) && touch $(DIST)/began
	CFLAGS='$(CFLAGS) -DZSTD_TRACE=0' \
	    $(CARGO) rustc $(CARGOFLAGS) --release --lib --crate-type staticlib,cdylib --target-dir $(DIST)
	@touch -r $(DIST)/began $(CARGO_OUT)/libweft.a $(CARGO_OUT)/libweft.so

$(OUT)/libweft.a: $(CARGO_OUT)/libweft.a tools/localise
	@mkdir -p $(OUT)
	tools/localise $< $@

# Debug sections go, function names stay, as in the static library. Into place in one step: a
# running program may have the old file mapped.
$(OUT)/$(SHARED): $(CARGO_OUT)/libweft.so
	@mkdir -p $(OUT)
	$(OBJCOPY) --strip-debug $< $@.$$$$ && mv -f $@.$$$$ $@

$(OUT)/$(SONAME) $(OUT)/libweft.so: $(OUT)/$(SHARED)
	@ln -sfn $(SHARED) $@

.PHONY: header
header:
	$(CARGO) run $(CARGOFLAGS) --quiet -p header

# ---- installation

# Directories under PREFIX are written relative to it, so that pkg-config can move the lot.
under_prefix = $(patsubst $(PREFIX)/%,$${prefix}/%,$(1))

.PHONY: install
install: $(LIBS)
	$(INSTALL) -d '$(DESTDIR)$(INCLUDEDIR)' '$(DESTDIR)$(LIBDIR)/pkgconfig'
	$(INSTALL) -C -m 644 include/weft.h '$(DESTDIR)$(INCLUDEDIR)/weft.h'
	$(INSTALL) -m 644 $(OUT)/libweft.a '$(DESTDIR)$(LIBDIR)/libweft.a'
	$(INSTALL) -m 755 $(OUT)/$(SHARED) '$(DESTDIR)$(LIBDIR)/$(SHARED)'
	ln -sfn $(SHARED) '$(DESTDIR)$(LIBDIR)/$(SONAME)'
	ln -sfn $(SONAME) '$(DESTDIR)$(LIBDIR)/libweft.so'
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' \
	    -e 's|@LIBDIR@|$(call under_prefix,$(LIBDIR))|' \
	    -e 's|@INCLUDEDIR@|$(call under_prefix,$(INCLUDEDIR))|' \
	    weft.pc.in >'$(DESTDIR)$(LIBDIR)/pkgconfig/weft.pc'
	chmod 644 '$(DESTDIR)$(LIBDIR)/pkgconfig/weft.pc'
	for page in $(MAN); do \
	    $(INSTALL) -d '$(DESTDIR)$(MANDIR)'/man$${page##*.} && \
	    $(INSTALL) -m 644 man/$$page '$(DESTDIR)$(MANDIR)'/man$${page##*.}/$$page || exit; \
	done

.PHONY: uninstall
uninstall:
	rm -f '$(DESTDIR)$(INCLUDEDIR)/weft.h' '$(DESTDIR)$(LIBDIR)/pkgconfig/weft.pc' \
	    '$(DESTDIR)$(LIBDIR)/libweft.a' '$(DESTDIR)$(LIBDIR)/libweft.so' \
	    '$(DESTDIR)$(LIBDIR)/$(SONAME)' '$(DESTDIR)$(LIBDIR)/$(SHARED)'
	for page in $(MAN); do rm -f '$(DESTDIR)$(MANDIR)'/man$${page##*.}/$$page; done

# An installed copy for the tests.
.PHONY: stage
stage:
	@$(MAKE) --no-print-directory --silent install PREFIX='$(STAGE)' LIBDIR='$(STAGE)/lib' \
	    INCLUDEDIR='$(STAGE)/include' MANDIR='$(STAGE)/share/man' DESTDIR=

# ---- checks and tests

.PHONY: check
check:
	@tools/install-packages rust build lint
	@$(MAKE) --no-print-directory all stage
	@tools/check

check-%: FORCE
	@tools/check $*

check-symbols: all
check-versions: stage

.PHONY: test
test:
	@tools/install-packages rust build lint nginx apache haproxy test fuzz
	@$(MAKE) --no-print-directory all stage nginx-module apache-module haproxy
	@tools/test $(SUITES)

# Where it may not be fuzzed for long, `make test` runs the seeds and some seconds more.
T ?= 60
FUZZ ?=
.PHONY: fuzz
fuzz:
	@tools/install-packages rust build fuzz
	@tools/fuzz --seconds $(T) $(FUZZ)

# A mixed load on the sanitized nginx; SEED=N for the one of before.
SEED ?=
.PHONY: soak
soak: SECONDS = $(if $(filter file,$(origin T)),600,$(T))
soak:
	@tools/install-packages rust build nginx test
	@tools/need libssl-dev libpcre2-dev zlib1g-dev
	@$(MAKE) --no-print-directory all stage
	@COMMAND='tests/nginx/soak --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))' \
	    tools/test-nginx-versions sanitized

# ---- benchmarks

# oha counts latency from when a request was due; Debian has no tool that does.
OHA_VERSION := 1.16.0
target/tools/bin/oha:
	$(CARGO) install oha --locked --version $(OHA_VERSION) --root target/tools

BENCH ?=
.PHONY: bench
bench:
	@tools/install-packages rust build nginx bench
	@$(MAKE) --no-print-directory all stage nginx-module target/tools/bin/oha
	@bench/run $(BENCH)

.PHONY: bench-docs
bench-docs:
	cp target/bench/benchmarks.md docs/benchmarks.md

# Takes minutes when it has to build the tool; `make check` judges licences and sources by the same
# deny.toml in a second.
DENY_VERSION := 0.20.2
.PHONY: deny
deny:
	@command -v cargo-deny >/dev/null || [ -x target/tools/bin/cargo-deny ] || \
	    $(CARGO) install cargo-deny --locked --version $(DENY_VERSION) --root target/tools
	PATH="$$PATH:$(CURDIR)/target/tools/bin" $(CARGO) deny --workspace --locked check licenses bans sources
	PATH="$$PATH:$(CURDIR)/target/tools/bin" $(CARGO) deny --manifest-path fuzz/Cargo.toml --config deny.toml \
	    --locked check licenses bans sources

.PHONY: FORCE
FORCE:

.PHONY: clean
clean:
	rm -rf target fuzz/target
