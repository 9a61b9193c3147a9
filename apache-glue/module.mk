# The Apache module.
#
#   make apache-module        for the Apache of apxs (Debian: apache2-dev), or APXS=FILE
#   make run-apache           Apache with the module, and what becomes of real files

APACHE_OUT := target/apache
APACHE_GLUE := apache-glue/build $(wildcard apache-glue/*.[ch])

.PHONY: apache-module
apache-module: $(APACHE_OUT)/mod_weft.so

$(APACHE_OUT)/mod_weft.so: $(APACHE_GLUE) target/weft/libweft.a include/weft.h
	@tools/install-packages apache
	@$(MAKE) --no-print-directory stage
	@PKG_CONFIG_PATH='$(STAGE)/lib/pkgconfig' apache-glue/build $(APACHE_OUT)

.PHONY: run-apache
run-apache: $(APACHE_OUT)/mod_weft.so
	@tools/run-apache $(RUN)
