package ownership

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Names, creation tokens and descriptions are chosen when a resource is created, and AWS lets nobody change them. So they prove more than
// tags, which anybody with permission to tag resources can set on other people's resources.

// Name returns the name of resources that Berth creates for the cluster. The given name, such as "efs", distinguishes its file systems.
func (c Cluster) Name(name string) string { return string(c) + "-" + name }

// FileSystemToken returns the creation token of a file system that Berth creates for the cluster.
func (c Cluster) FileSystemToken(name string) string { return shortened("berth-" + c.Name(name)) }

// PointToken returns the token of an access point that Berth creates for a directory of a file system.
func PointToken(fileSystem, path string) string { return shortened("berth-" + fileSystem + path) }

// GroupDescription returns the description of a security group that Berth creates for the cluster.
func (c Cluster) GroupDescription() string {
	return "Mount targets of EFS for the nodes of cluster " + string(c)
}

// CreatedFileSystem reports whether a file system with a creation token and a tag Name was created for the cluster. The tag is needed only
// to compute shortened tokens of long IDs: no tag makes the token of another cluster match.
func (c Cluster) CreatedFileSystem(token, nameTag string) bool {
	if strings.HasPrefix(token, "berth-"+c.Name("")) {
		return true
	}
	name, named := strings.CutPrefix(nameTag, c.Name(""))
	return named && token == c.FileSystemToken(name)
}

// shortened returns a token for EFS, which has at most 64 characters.
func shortened(token string) string {
	if len(token) <= 64 {
		return token
	}
	sum := sha256.Sum256([]byte(token))
	return strings.ToValidUTF8(token[:40], "") + "-" + hex.EncodeToString(sum[:])[:20]
}
