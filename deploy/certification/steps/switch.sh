# Switches the Subscription to the catalog that customers have, while the writer goes on.
migrate() {
  berth switch plan @PACKAGE@ --to certified-operators --namespace openshift-cluster-csi-drivers
  berth switch apply @PACKAGE@ --to certified-operators --namespace openshift-cluster-csi-drivers
  await-driver
  check-writer
}
