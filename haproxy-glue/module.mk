# HAProxy with the filter in it.
#
#   make haproxy             from Debian's source package, or HAPROXY_SRC=DIR
#   make run-haproxy         HAProxy in front of a server, and what becomes of real files

HAPROXY_OUT := target/haproxy
HAPROXY_GLUE := haproxy-glue/build $(wildcard haproxy-glue/*.[ch])

# The source that is wanted against the one that was built: haproxy-glue/build notes it.
HAPROXY_WANT = $(if $(HAPROXY_SRC),$(shell cd '$(HAPROXY_SRC)' && pwd),debian)
HAPROXY_OTHER = $(if $(filter $(HAPROXY_WANT),$(file <$(HAPROXY_OUT)/tree/.unpacked)),,haproxy-other)

.PHONY: haproxy haproxy-other
haproxy: $(HAPROXY_OUT)/haproxy

$(HAPROXY_OUT)/haproxy: $(HAPROXY_GLUE) target/weft/libweft.a include/weft.h $(HAPROXY_OTHER)
	@tools/install-packages haproxy
	@$(MAKE) --no-print-directory stage
	@PKG_CONFIG_PATH='$(STAGE)/lib/pkgconfig' haproxy-glue/build $(HAPROXY_OUT)

.PHONY: run-haproxy
run-haproxy: $(HAPROXY_OUT)/haproxy
	@tools/run-haproxy $(RUN)

# A mixed load on a HAProxy built with AddressSanitizer and UndefinedBehaviorSanitizer.
.PHONY: soak-haproxy
soak-haproxy: SECONDS = $(if $(filter file,$(origin T)),600,$(T))
soak-haproxy: stage
	@tools/install-packages haproxy test
	@PKG_CONFIG_PATH='$(STAGE)/lib/pkgconfig' HAPROXY_FLAGS='DEBUG_CFLAGS=-g' \
	    HAPROXY_CFLAGS='-fsanitize=address,undefined -fno-omit-frame-pointer -O1' \
	    HAPROXY_LDFLAGS='-fsanitize=address,undefined' haproxy-glue/build $(HAPROXY_OUT)-sanitized
	@HAPROXY_BIN=$(HAPROXY_OUT)-sanitized/haproxy HAPROXY_ARGS=-dMno-cache,no-merge tests/haproxy/soak --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))
