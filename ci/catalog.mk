# Targets that check a catalog. Copy this file, or include it from a checkout:
#
#   CATALOG := catalog/certified
#   include berth/ci/catalog.mk

CATALOG      ?= catalog
CATALOG_BASE ?= origin/main
# A catalog that this one replaces, and a file with known findings, or nothing
CATALOG_AGAINST  ?=
CATALOG_BASELINE ?=
# Changes that fail catalog-diff, of any, lost and never
CATALOG_FAIL_ON  ?= never
BERTH            ?= berth

.PHONY: catalog-validate
catalog-validate: ## Validate $(CATALOG)
	$(strip $(BERTH) catalog validate $(CATALOG) $(addprefix --against=,$(CATALOG_AGAINST)) $(addprefix --baseline=,$(CATALOG_BASELINE)))

.PHONY: catalog-diff
catalog-diff: ## Report what $(CATALOG) changes for clusters since $(CATALOG_BASE)
	@old=$$(mktemp -d) && trap 'rm -rf "$$old"' EXIT && git archive $(CATALOG_BASE) -- $(CATALOG) | tar -x -C "$$old" && \
	$(BERTH) catalog diff "$$old/$(CATALOG)" $(CATALOG) --fail-on $(CATALOG_FAIL_ON)

.PHONY: catalog-graph
catalog-graph: ## Draw $(CATALOG) into catalog.html
	$(BERTH) catalog graph $(CATALOG) -o html > catalog.html
