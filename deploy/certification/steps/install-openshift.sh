install-openshift() {
  openshift-install create cluster --dir "$install_dir"
}
