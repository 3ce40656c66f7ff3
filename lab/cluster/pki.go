package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/berth-csi/berth/lab/cluster/realnode"
)

// validity of all certificates: longer than any cluster runs, and back-dated for skewed clocks.
const (
	validFor    = 365 * 24 * time.Hour
	validBefore = time.Hour
)

// keyPair is a certificate and its private key, both PEM.
type keyPair struct{ cert, key []byte }

// authority signs certificates.
type authority struct {
	keyPair
	parsed *x509.Certificate
	signer *ecdsa.PrivateKey
}

// pki has all keys and certificates of a cluster. As in a real one, there are separate authorities for clients,
// servers and the front proxy, so that none can impersonate another.
type pki struct {
	clients, servers, frontProxy authority
	// serviceAccounts is the key of service account tokens.
	serviceAccounts []byte
	// formerServiceAccounts are earlier such keys that the API server still trusts.
	formerServiceAccounts []byte
}

func newPKI() (*pki, error) {
	var p pki
	for name, target := range map[string]*authority{
		"berth-cluster-clients":     &p.clients,
		"berth-cluster-servers":     &p.servers,
		"berth-cluster-front-proxy": &p.frontProxy,
	} {
		made, err := newAuthority(name)
		if err != nil {
			return nil, err
		}
		*target = made
	}
	var err error
	p.serviceAccounts, err = newTokenKey()
	return &p, err
}

// newTokenKey returns a key for the tokens of service accounts: RSA, like OpenShift's.
func newTokenKey() ([]byte, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}), nil
}

func newAuthority(name string) (authority, error) {
	template := certificate(pkix.Name{CommonName: name})
	template.IsCA = true
	template.KeyUsage |= x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return authority{}, err
	}
	pair, err := sign(template, template, key, key)
	if err != nil {
		return authority{}, err
	}
	return authority{keyPair: pair, parsed: template, signer: key}, nil
}

// client issues a certificate that identifies a user to the API server.
func (p *pki) client(user string, groups ...string) (keyPair, error) {
	template := certificate(pkix.Name{CommonName: user, Organization: groups})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return p.clients.issue(template)
}

// proxy issues the certificate that identifies the API server to aggregated API servers.
func (p *pki) proxy(name string) (keyPair, error) {
	template := certificate(pkix.Name{CommonName: name})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return p.frontProxy.issue(template)
}

// server issues a serving certificate for an address and the API server's names in a cluster.
func (p *pki) server(address string) (keyPair, error) {
	template := certificate(pkix.Name{CommonName: "kubernetes"})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	service, _, err := net.SplitHostPort(realnode.APIServer)
	if err != nil {
		return keyPair{}, err
	}
	template.IPAddresses = []net.IP{net.ParseIP(address), net.IPv4(127, 0, 0, 1), net.ParseIP(service)}
	template.DNSNames = []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
	return p.servers.issue(template)
}

func (a authority) issue(template *x509.Certificate) (keyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, err
	}
	return sign(template, a.parsed, key, a.signer)
}

func certificate(subject pkix.Name) *x509.Certificate {
	// A unique serial number: 120 random bits.
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		panic(fmt.Sprintf("no random numbers: %v", err)) // the runtime would not work either
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber:          serial,
		Subject:               subject,
		NotBefore:             now.Add(-validBefore),
		NotAfter:              now.Add(validFor),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		BasicConstraintsValid: true,
	}
}

func sign(template, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) (keyPair, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return keyPair{}, fmt.Errorf("sign the certificate of %q: %w", template.Subject.CommonName, err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return keyPair{}, err
	}
	return keyPair{
		cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
	}, nil
}

// write saves the pair as name.crt and name.key in a folder.
func (k keyPair) write(folder, name string) error {
	if err := os.WriteFile(filepath.Join(folder, name+".crt"), k.cert, 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, name+".key"), k.key, 0o600)
}
