# Deletes first what the installer does not know, and what would keep it from deleting the network.
destroy() {
  INFRA_ID=$(jq -er .infraID "$install_dir/metadata.json")
  REGION=$(jq -er .aws.region "$install_dir/metadata.json")
  @DESTROY@
  openshift-install destroy cluster --dir "$install_dir"
}
