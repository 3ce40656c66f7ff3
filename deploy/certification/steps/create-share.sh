# The StorageClass is in the manifest's file, for Kubernetes' tests, and in the cluster, for the writer.
create-share() {
  @CREATE@ >"$here/@STORAGE_CLASS_FILE@"
  oc apply -f "$here/@STORAGE_CLASS_FILE@"
}
