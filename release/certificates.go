package main

import (
	"bytes"
	"encoding/pem"

	"golang.org/x/crypto/x509roots/fallback/bundle"

	"github.com/berth-csi/berth/internal/oci"
)

// certificates returns the files that programs expect in an image without a distribution: Mozilla's certificate authorities,
// where Go looks for them, and the users.
func certificates() oci.Files {
	var authorities bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue // trusted for some certificates only, which a file cannot say
		}
		_ = pem.Encode(&authorities, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer takes everything
	}
	return oci.Files{
		"etc/ssl/certs/ca-certificates.crt": {Data: authorities.Bytes()},
		"etc/passwd":                        {Data: []byte("root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n")},
		"etc/group":                         {Data: []byte("root:x:0:\nnonroot:x:65532:\n")},
	}
}
