destroy() {
  openshift-install destroy cluster --dir "$install_dir"
}
