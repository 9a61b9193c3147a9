# weft: build, install, check, test. `make help` lists the verbs.

MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
.DELETE_ON_ERROR:
SHELL := /bin/sh

PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
DESTDIR ?=
INSTALL ?= install
CC ?= cc
OBJCOPY ?= objcopy
# rustup puts cargo where a shell started before it does not look.
CARGO ?= $(or $(shell command -v cargo),$(wildcard $(HOME)/.cargo/bin/cargo),cargo)
CARGOFLAGS ?= --locked

VERSION := $(shell sed -n 's/^version = "\(.*\)"$$/\1/p;/^version/q' Cargo.toml)
MAJOR := $(firstword $(subst ., ,$(VERSION)))

CARGO_OUT := $(or $(CARGO_TARGET_DIR),target)/release
OUT := target/weft
SONAME := libweft.so.$(MAJOR)
SHARED := libweft.so.$(VERSION)
LIBS := $(OUT)/libweft.a $(OUT)/$(SHARED)
STAGE := $(CURDIR)/target/stage

SOURCES := Cargo.toml Cargo.lock build.rs $(shell find src -name '*.rs')

.PHONY: all
all: $(LIBS) $(OUT)/$(SONAME) $(OUT)/libweft.so

# Included behind `all`, which stays what a bare `make` does.
-include nginx-glue/module.mk

# ---- the library

# make decides from the times whether to call cargo, so that `sudo make install` needs none.
# touch: cargo leaves its output alone when the sources only look newer.
$(CARGO_OUT)/libweft.a $(CARGO_OUT)/libweft.so &: $(SOURCES)
	$(CARGO) build $(CARGOFLAGS) --release --lib
	@touch $(CARGO_OUT)/libweft.a $(CARGO_OUT)/libweft.so

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
	$(INSTALL) -m 644 include/weft.h '$(DESTDIR)$(INCLUDEDIR)/weft.h'
	$(INSTALL) -m 644 $(OUT)/libweft.a '$(DESTDIR)$(LIBDIR)/libweft.a'
	$(INSTALL) -m 755 $(OUT)/$(SHARED) '$(DESTDIR)$(LIBDIR)/$(SHARED)'
	ln -sfn $(SHARED) '$(DESTDIR)$(LIBDIR)/$(SONAME)'
	ln -sfn $(SONAME) '$(DESTDIR)$(LIBDIR)/libweft.so'
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' \
	    -e 's|@LIBDIR@|$(call under_prefix,$(LIBDIR))|' \
	    -e 's|@INCLUDEDIR@|$(call under_prefix,$(INCLUDEDIR))|' \
	    weft.pc.in >'$(DESTDIR)$(LIBDIR)/pkgconfig/weft.pc'
	chmod 644 '$(DESTDIR)$(LIBDIR)/pkgconfig/weft.pc'

.PHONY: uninstall
uninstall:
	rm -f '$(DESTDIR)$(INCLUDEDIR)/weft.h' '$(DESTDIR)$(LIBDIR)/pkgconfig/weft.pc' \
	    '$(DESTDIR)$(LIBDIR)/libweft.a' '$(DESTDIR)$(LIBDIR)/libweft.so' \
	    '$(DESTDIR)$(LIBDIR)/$(SONAME)' '$(DESTDIR)$(LIBDIR)/$(SHARED)'

# An installed copy for the tests.
.PHONY: stage
stage:
	@$(MAKE) --no-print-directory --silent install PREFIX='$(STAGE)' LIBDIR='$(STAGE)/lib' \
	    INCLUDEDIR='$(STAGE)/include' DESTDIR=

.PHONY: clean
clean:
	rm -rf target
