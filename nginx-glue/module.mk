# The nginx module.
#
#   make nginx-module                      for the nginx installed (Debian: nginx, nginx-dev)
#   make nginx-module NGINX_SRC=DIR        for the nginx of that source tree, in target/nginx-VERSION
#        NGINX_CONFIGURE='FLAG..'          with these configure flags
#   make nginx-server NGINX_SRC=DIR        that nginx itself and the module
#   make nginx-static NGINX_SRC=DIR        that nginx with the module in it
#   make test-nginx-versions               the tests on that nginx and on 1.28, built in several ways
#   make run                               nginx with the module, real files, and what it gains

NGINX_SRC ?=
NGINX_CONFIGURE ?=
NGINX_VERSION = $(shell sed -n 's/^.define NGINX_VERSION *"\(.*\)"/\1/p' $(NGINX_SRC)/src/core/nginx.h)
NGINX_OUT ?= target/nginx$(if $(NGINX_SRC),-$(NGINX_VERSION))
NGINX_GLUE := nginx-glue/config nginx-glue/build $(wildcard nginx-glue/*.[ch])

nginx_build = PKG_CONFIG_PATH='$(STAGE)/lib/pkgconfig' NGINX_BUILD=$(1) \
    nginx-glue/build $(NGINX_OUT) $(or $(NGINX_SRC),$(if $(NGINX_CONFIGURE),/usr/share/nginx/src)) \
    $(NGINX_CONFIGURE)

.PHONY: nginx-module nginx-server nginx-static
nginx-module: $(if $(NGINX_SRC)$(NGINX_CONFIGURE),stage,target/nginx/ngx_http_weft_filter_module.so)
	$(if $(NGINX_SRC)$(NGINX_CONFIGURE),@$(call nginx_build,module))

nginx-server: stage
	@$(call nginx_build,server)

nginx-static: stage
	@$(call nginx_build,static)

target/nginx/ngx_http_weft_filter_module.so: $(NGINX_GLUE) target/weft/libweft.a include/weft.h
	@tools/install-packages nginx
	@$(MAKE) --no-print-directory stage
	@$(call nginx_build,module)

.PHONY: run
run: target/nginx/ngx_http_weft_filter_module.so
	@tools/run-nginx $(RUN)

.PHONY: test-nginx-versions
test-nginx-versions: target/nginx/ngx_http_weft_filter_module.so
	@tools/install-packages nginx test
	@tools/need libssl-dev libpcre2-dev zlib1g-dev
	@tools/test-nginx-versions $(VERSIONS)
