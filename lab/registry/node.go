package registry

import (
	"fmt"
	"os"
	"path/filepath"
)

// AdmitNode lets the container runtime of a node trust the registry, and its kubelet log in, as OpenShift does with the
// cluster's additional certificate authorities and its pull secret. The node must reach the registry at its address,
// and root is the node's root folder. Call it before the node pulls anything: kubelets read their pull secret every
// five minutes.
func (s *Secure) AdmitNode(root string) error {
	trust := filepath.Join("/etc/containerd/certs.d", s.Address)
	for path, content := range map[string]string{
		filepath.Join(trust, "ca.crt"):     string(s.Authority),
		filepath.Join(trust, "hosts.toml"): fmt.Sprintf("[host.%q]\ncapabilities = [\"pull\", \"resolve\"]\nca = %q\n", "https://"+s.Address, filepath.Join(trust, "ca.crt")),
		"/var/lib/kubelet/config.json":     string(s.Login),
	} {
		file := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}
