# Targets that check a catalog. Copy this file, or include it from a checkout:
#
#   CATALOG := catalog/certified
#   include berth/ci/catalog.mk

CATALOG      ?= catalog
CATALOG_BASE ?= origin/main
BERTH        ?= berth

.PHONY: catalog-validate
catalog-validate: ## Validate $(CATALOG)
	$(BERTH) catalog validate $(CATALOG)

.PHONY: catalog-diff
catalog-diff: ## Report what $(CATALOG) changes for clusters since $(CATALOG_BASE)
	@old=$$(mktemp -d) && trap 'rm -rf "$$old"' EXIT && git archive $(CATALOG_BASE) -- $(CATALOG) | tar -x -C "$$old" && \
	{ $(BERTH) catalog diff "$$old/$(CATALOG)" $(CATALOG) || [ $$? -eq 1 ]; }

.PHONY: catalog-graph
catalog-graph: ## Draw $(CATALOG) into catalog.html
	$(BERTH) catalog graph $(CATALOG) -o html > catalog.html
