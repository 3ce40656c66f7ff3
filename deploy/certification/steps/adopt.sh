# Hands the driver over to the cluster storage operator, while the writer goes on. Until now, the cluster has none: install-config.yaml
# leaves the capability Storage out.
migrate() {
  oc patch clusterversion version --type merge -p '{"spec":{"capabilities":{"additionalEnabledCapabilities":["Storage"]}}}'
  oc wait clusteroperator storage --for=create --timeout=15m
  berth adopt plan @DRIVER@
  berth adopt apply @DRIVER@
  await-driver
  check-writer
}
