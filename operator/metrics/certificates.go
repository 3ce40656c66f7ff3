package metrics

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"

	"k8s.io/client-go/util/cert"
)

// certificates provides the serving certificate.
type certificates struct {
	folder string
	// selfSigned generates a certificate on first use. Most clusters never need it.
	selfSigned func() (*tls.Certificate, error)
}

func newCertificates(folder string) *certificates {
	return &certificates{folder: folder, selfSigned: sync.OnceValues(generateCertificate)}
}

// get reads the certificate for each connection. There are only a few connections a minute, and so it need not watch the
// files or cache anything that could be stale.
func (c *certificates) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	loaded, err := tls.LoadX509KeyPair(filepath.Join(c.folder, "tls.crt"), filepath.Join(c.folder, "tls.key"))
	if errors.Is(err, fs.ErrNotExist) {
		return c.selfSigned()
	}
	if err != nil {
		return nil, fmt.Errorf("reading the certificate in %s: %w", c.folder, err)
	}
	return &loaded, nil
}

// generateCertificate generates a self-signed certificate. The kubelet does not verify certificates of probes.
func generateCertificate() (*tls.Certificate, error) {
	pem, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		return nil, err
	}
	generated, err := tls.X509KeyPair(pem, key)
	return &generated, err
}
