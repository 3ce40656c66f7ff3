package serving

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"

	"k8s.io/client-go/util/cert"
)

// certificates has the certificate to serve with.
type certificates struct {
	folder string
	// selfMade is made when it is first needed, which is never on most clusters.
	selfMade func() (*tls.Certificate, error)
}

func newCertificates(folder string) *certificates {
	return &certificates{folder: folder, selfMade: sync.OnceValues(makeCertificate)}
}

// get reads the certificate for each connection: there are few, a minute, and so there is nothing to
// watch and no state to be stale.
func (c *certificates) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	given, err := tls.LoadX509KeyPair(filepath.Join(c.folder, "tls.crt"), filepath.Join(c.folder, "tls.key"))
	if errors.Is(err, fs.ErrNotExist) {
		return c.selfMade()
	}
	if err != nil {
		return nil, fmt.Errorf("reading the certificate in %s: %w", c.folder, err)
	}
	return &given, nil
}

// makeCertificate makes a certificate that nobody can verify. kubelet does not want to.
func makeCertificate() (*tls.Certificate, error) {
	pem, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		return nil, err
	}
	made, err := tls.X509KeyPair(pem, key)
	return &made, err
}
