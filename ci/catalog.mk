# Targets that check a catalog. Copy this file, or include it from a checkout:
#
#   CATALOG := catalog/certified
#   include berth/ci/catalog.mk

CATALOG      ?= catalog
CATALOG_BASE ?= origin/main
# CATALOG_AGAINST is a catalog that this one replaces, and CATALOG_BASELINE a file in CATALOG_BASE with known findings. Both are optional.
CATALOG_AGAINST  ?=
CATALOG_BASELINE ?=
# The changes that make catalog-diff fail: any, lost or never
CATALOG_FAIL_ON  ?= never
BERTH            ?= berth

.PHONY: catalog-validate
catalog-validate: ## Validate $(CATALOG)
ifeq ($(strip $(CATALOG_BASELINE)),)
	$(strip $(BERTH) catalog validate $(CATALOG) $(addprefix --against=,$(CATALOG_AGAINST)))
else # from CATALOG_BASE: a change must not declare its own findings as known
	@known=$$(mktemp -d) && trap 'rm -rf "$$known"' EXIT && \
	if git show $(CATALOG_BASE):$(CATALOG_BASELINE) > "$$known/known.json"; then set -- --baseline="$$known/known.json"; \
	else echo "$(CATALOG_BASELINE) is not in $(CATALOG_BASE), so no finding is known yet"; set --; fi && \
	$(BERTH) catalog validate $(CATALOG) $(addprefix --against=,$(CATALOG_AGAINST)) "$$@"
endif

.PHONY: catalog-diff
catalog-diff: ## Report what $(CATALOG) changes for clusters since $(CATALOG_BASE)
	@git rev-parse --quiet --verify '$(CATALOG_BASE)^{commit}' > /dev/null || { echo "CATALOG_BASE is $(CATALOG_BASE), which this clone does not have: fetch it, or name another commit" >&2; exit 2; }
	@there=$$(git ls-tree $(CATALOG_BASE) -- $(CATALOG)) || exit; if [ -z "$$there" ]; then echo "$(CATALOG) is new: $(CATALOG_BASE) does not have it"; exit; fi && \
	old=$$(mktemp -d) && trap 'rm -rf "$$old"' EXIT && git archive $(CATALOG_BASE) -- $(CATALOG) | tar -x -C "$$old" && \
	$(BERTH) catalog diff "$$old/$(CATALOG)" $(CATALOG) --fail-on $(CATALOG_FAIL_ON)

.PHONY: catalog-graph
catalog-graph: ## Draw $(CATALOG) into catalog.html
	@$(BERTH) catalog graph $(CATALOG) -o html > catalog.html.new && mv catalog.html.new catalog.html || { rm -f catalog.html.new; exit 1; }
