# subscribe installs the operator from a catalog's image, or updates it from there.
subscribe() {
  oc apply -f - <<END
apiVersion: operators.coreos.com/v1alpha1
kind: CatalogSource
metadata:
  name: berth
  namespace: openshift-marketplace
spec:
  sourceType: grpc
  image: $1
  grpcPodConfig:
    securityContextConfig: restricted
    extractContent: {catalogDir: /configs} # images of our catalogs have no program
---
apiVersion: operators.coreos.com/v1alpha1
kind: Subscription
metadata:
  name: @PACKAGE@
  namespace: openshift-cluster-csi-drivers
spec:
  name: @PACKAGE@
  channel: @CHANNEL@
  source: berth
  sourceNamespace: openshift-marketplace
END
}

# installed prints the name of the ClusterServiceVersion that OLM has installed.
installed() {
  oc -n openshift-cluster-csi-drivers get subscription @PACKAGE@ -o 'jsonpath={.status.installedCSV}'
}

await-driver() {
  oc wait clustercsidriver @CSI_NAME@ --for=condition=Available=True --timeout=15m
}

install-operator() {
  oc create namespace openshift-cluster-csi-drivers --dry-run=client -o yaml | oc apply -f -
  oc label --overwrite namespace openshift-cluster-csi-drivers pod-security.kubernetes.io/enforce=privileged openshift.io/cluster-monitoring=true
  if [ -z "$(oc -n openshift-cluster-csi-drivers get operatorgroups -o name)" ]; then
    oc create -f - <<END
apiVersion: operators.coreos.com/v1
kind: OperatorGroup
metadata:
  name: csi-drivers
  namespace: openshift-cluster-csi-drivers
spec: {}
END
  fi
  subscribe "${CATALOG:?want the image of the catalog, by digest}"
  oc -n openshift-cluster-csi-drivers wait subscription @PACKAGE@ --for=jsonpath='{.status.state}'=AtLatestKnown --timeout=15m
  oc apply -f - <<END
@CUSTOM_RESOURCE@
END
  await-driver
}
