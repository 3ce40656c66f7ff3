run() {
  mkdir -p "${RESULTS:=results}"
  local results tests
  results=$(cd "$RESULTS" && pwd)
  tests=$(oc adm release info --image-for=tests)
  podman run --rm -v "$here:/data:z" -v "$results:/results:z" -v "$KUBECONFIG:/kubeconfig:z" -w /data \
    -e KUBECONFIG=/kubeconfig -e TEST_CSI_DRIVER_FILES=/data/@MANIFEST_FILE@ -e TEST_OCP_CSI_DRIVER_FILES=/data/@OCP_MANIFEST_FILE@ \
    "$tests" openshift-tests run openshift/csi --junit-dir /results
}
