# HAProxy with the filter in it.
#
#   make haproxy             from Debian's source package, or HAPROXY_SRC=DIR
#   make run-haproxy         HAProxy in front of a server, and what becomes of real files

HAPROXY_OUT := target/haproxy
HAPROXY_GLUE := haproxy-glue/build $(wildcard haproxy-glue/*.[ch])

.PHONY: haproxy
haproxy: $(HAPROXY_OUT)/haproxy

$(HAPROXY_OUT)/haproxy: $(HAPROXY_GLUE) target/weft/libweft.a include/weft.h
	@tools/install-packages haproxy
	@$(MAKE) --no-print-directory stage
	@PKG_CONFIG_PATH='$(STAGE)/lib/pkgconfig' haproxy-glue/build $(HAPROXY_OUT)

.PHONY: run-haproxy
run-haproxy: $(HAPROXY_OUT)/haproxy
	@tools/run-haproxy $(RUN)
