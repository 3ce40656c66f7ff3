package openstack

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// newCertificate returns a new CA in PEM format, and a certificate of it for a server at an address, "IP:port".
func newCertificate(address string) (authority []byte, certificate tls.Certificate, err error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, certificate, err
	}
	caKey, caDER, err := sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "CA of the OpenStack cloud"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil, nil)
	if err != nil {
		return nil, certificate, err
	}
	ca, err := x509.ParseCertificate(caDER)
	if err != nil {
		return nil, certificate, err
	}
	key, der, err := sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: host}, IPAddresses: []net.IP{net.ParseIP(host)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, ca, caKey)
	if err != nil {
		return nil, certificate, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER}), tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// sign returns a new key and its certificate, which is signed by the parent, or by itself without one.
func sign(template, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	if parent == nil {
		parent, parentKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		return nil, nil, fmt.Errorf("the certificate %q: %w", template.Subject.CommonName, err)
	}
	return key, der, nil
}
