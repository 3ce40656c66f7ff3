package provision

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/berth-csi/berth/internal/aws/removal"
	"github.com/berth-csi/berth/internal/boundedyaml"
)

// provisioner is the EFS driver.
const provisioner = "efs.csi.aws.com"

// SharedVolumes returns a SharedVolume for each access point of the report, as YAML. They have no namespace, which the user chooses
// when applying them. Each is named after its path.
func (r Report) SharedVolumes() ([]byte, error) {
	fileSystem, err := r.fileSystem()
	if err != nil {
		return nil, err
	}
	var documents [][]byte
	taken := map[string]bool{}
	for _, resource := range r.Resources {
		if resource.Kind != removal.AccessPoint {
			continue
		}
		name := objectName(resource.About)
		for n := 2; taken[name]; n++ {
			name = fmt.Sprintf("%s-%d", objectName(resource.About), n)
		}
		taken[name] = true
		if err := checkID("access point", resource.ID); err != nil {
			return nil, err
		}
		document, err := boundedyaml.Marshal(map[string]any{
			"apiVersion": "aws-efs.managed.openshift.io/v1alpha1",
			"kind":       "SharedVolume",
			"metadata":   map[string]any{"name": name},
			"spec":       map[string]any{"fileSystemID": fileSystem, "accessPointID": resource.ID},
		})
		if err != nil {
			return nil, err
		}
		documents = append(documents, document)
	}
	return bytes.Join(documents, []byte("---\n")), nil
}

// StorageClass returns a StorageClass that makes an access point for each claim, as YAML. Its name is the file system's name with
// "-dynamic" appended.
func (r Report) StorageClass(fileSystemName string) ([]byte, error) {
	fileSystem, err := r.fileSystem()
	if err != nil {
		return nil, err
	}
	return boundedyaml.Marshal(map[string]any{
		"apiVersion":  "storage.k8s.io/v1",
		"kind":        "StorageClass",
		"metadata":    map[string]any{"name": objectName(fileSystemName) + "-dynamic"},
		"provisioner": provisioner,
		"parameters":  map[string]any{"provisioningMode": "efs-ap", "fileSystemId": fileSystem, "directoryPerms": "700"},
	})
}

// fileSystem returns the ID of the file system.
func (r Report) fileSystem() (string, error) {
	for _, resource := range r.Resources {
		if resource.Kind == removal.FileSystem && resource.ID != "" {
			return resource.ID, checkID("file system", resource.ID)
		}
	}
	return "", errors.New("there is no file system yet")
}

// id matches the IDs of file systems and access points.
var id = regexp.MustCompile(`^fs(ap)?-[0-9a-f]{1,40}$`)

// checkID returns an error unless an ID that AWS returned may be written into an object.
func checkID(what, found string) error {
	if id.MatchString(found) {
		return nil
	}
	return fmt.Errorf("AWS says that the ID of the %s is %q, want one like fs-0123456789abcdef0 or fsap-0123456789abcdef0: no object is made; "+
		"look at it with `aws efs describe-file-systems`, and check that AWS_ENDPOINT_URL is not set to another service", what, found)
}

// notInNames matches characters that are not allowed in names of objects.
var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// maxName leaves room for a claim's prefix and a suffix that distinguishes objects.
const maxName = 50

// objectName turns a path or a name into a name of an object.
func objectName(text string) string {
	name := notInNames.ReplaceAllString(strings.ToLower(text), "-")
	if name = strings.Trim(name, "-"); len(name) > maxName {
		name = strings.Trim(name[:maxName], "-")
	}
	if name == "" {
		return "share"
	}
	return name
}
