await-platform() {
  oc wait clusteroperator storage --for=condition=Available=True --timeout=15m
  oc get csidriver @CSI_NAME@
}
