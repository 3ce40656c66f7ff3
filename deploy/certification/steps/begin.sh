# The steps of a certification of the driver @CSI_NAME@ on OpenShift: job.sh [STEP...], by default all.
#
# They want these on the PATH: bash, oc, openshift-install, berth and jq, and podman for the tests. Run them beside the manifests, or in
# the image of Dockerfile.test.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
install_dir=$(cd "${INSTALL_DIR:?want the folder with install-config.yaml, which openshift-install fills}" && pwd)
export KUBECONFIG=$install_dir/auth/kubeconfig
