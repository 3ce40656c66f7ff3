package wire

import "encoding/asn1"

// Object identifiers of the extensions with which mount.efs names an access point and a file system in the client's certificate. They are
// in certificate_utils.py of efs-utils 3.2.
var (
	AccessPointExtension = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 4843, 7, 1}
	FileSystemExtension  = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 4843, 7, 3}
)
