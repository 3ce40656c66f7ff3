package certification

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"github.com/berth-csi/berth/internal/boundedyaml"
)

//go:embed steps
var stepFiles embed.FS

// steps are the steps of a job, in order. file is the step's script in the folder steps. has reports whether a driver's job has the step.
var steps = []struct {
	name, file string
	has        func(*subject) bool
}{
	{"install-openshift", "install-openshift.sh", always},
	{"install-operator", "install-operator.sh", (*subject).packaged},
	{"await-platform", "await-platform.sh", func(s *subject) bool { return !s.packaged() }},
	{"create-share", "create-share.sh", func(s *subject) bool { return s.Certification.Create != "" }},
	{"run", "run.sh", always},
	{"upgrade", "upgrade.sh", (*subject).packaged},
	{"migrate", "adopt.sh", (*subject).adoptable},
	{"migrate", "switch.sh", func(s *subject) bool { return s.packaged() && !s.adoptable() }},
	{"destroy", "destroy.sh", func(s *subject) bool { return s.Certification.Destroy == "" }},
	{"destroy", "destroy-share.sh", func(s *subject) bool { return s.Certification.Destroy != "" }},
}

func (s *subject) packaged() bool  { return s.HasPackage() }
func (s *subject) adoptable() bool { return s.packaged() && s.ClusterStorage != nil }

// job returns the script of a driver's job. Each step of it is a function.
func (s *subject) job() ([]byte, error) {
	custom := []byte{}
	if s.packaged() {
		var err error
		if custom, err = s.example(); err != nil {
			return nil, err
		}
	}
	values := strings.NewReplacer(
		"@DRIVER@", s.Name, "@CSI_NAME@", s.CSIName, "@NAMESPACE@", namespace(s.Driver), "@PACKAGE@", s.Package.Name, "@CHANNEL@", s.Package.Channel,
		"@CLASS@", s.Certification.Class, "@CREATE@", s.Certification.Create, "@DESTROY@", s.Certification.Destroy,
		"@STORAGE_CLASS_FILE@", storageClassFile, "@MANIFEST_FILE@", ManifestFile, "@OCP_MANIFEST_FILE@", ocpManifestFile,
		"@CUSTOM_RESOURCE@\n", string(custom),
	)
	var names []string
	var body bytes.Buffer
	for _, step := range steps {
		if !step.has(s) {
			continue
		}
		content, err := stepFiles.ReadFile("steps/" + step.file)
		if err != nil {
			return nil, err
		}
		names = append(names, step.name)
		fmt.Fprintf(&body, "\n%s", values.Replace(string(content)))
	}
	begin, err := stepFiles.ReadFile("steps/begin.sh")
	if err != nil {
		return nil, err
	}
	end, err := stepFiles.ReadFile("steps/end.sh")
	if err != nil {
		return nil, err
	}
	script := []byte("#!/usr/bin/env bash\n" + header)
	script = append(script, values.Replace(string(begin))...)
	script = append(script, body.Bytes()...)
	return append(script, "\n"+strings.ReplaceAll(string(end), "@STEPS@", strings.Join(names, " "))...), nil
}

// example returns the ClusterCSIDriver among the examples of the package.
func (s *subject) example() ([]byte, error) {
	names, err := fs.Glob(s.Package.Examples, "*.yaml")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		content, err := fs.ReadFile(s.Package.Examples, name)
		if err != nil {
			return nil, err
		}
		var object struct {
			Kind     string                `json:"kind"`
			Metadata struct{ Name string } `json:"metadata"`
		}
		if err := boundedyaml.Unmarshal(content, &object); err != nil {
			return nil, fmt.Errorf("example %s: %w", name, err)
		}
		if object.Kind == "ClusterCSIDriver" && object.Metadata.Name == s.CSIName {
			return content, nil
		}
	}
	return nil, fmt.Errorf("found examples %q, want ClusterCSIDriver %s among them", names, s.CSIName)
}
