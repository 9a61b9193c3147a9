# Packages.
#
#   make deb              Debian packages of the library and of both modules, in target/deb
#   make rpm              packages of the library, in target/rpm
#   make test-packages    installs, upgrades and purges them in a clean Debian 12; needs root

.PHONY: deb
deb:
	@tools/install-packages rust build nginx apache deb
	@packaging/build-deb

.PHONY: rpm
rpm:
	@tools/install-packages rust build rpm
	@packaging/build-rpm

.PHONY: test-packages
test-packages:
	@tools/install-packages rust build nginx apache deb
	@tools/need debootstrap
	@packaging/test-packages
