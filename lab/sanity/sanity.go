// Package sanity checks with csi-sanity whether a real driver keeps the rules of the CSI on a simulated cloud. Where
// the rules and the driver are right, a failure is the cloud's fault: so it shows whether the clouds can be trusted.
package sanity

import (
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/berth-csi/berth/lab/cluster/tools"
)

// Options say how a driver is checked.
type Options struct {
	// Socket is the path of the driver's socket, and Controller the controller's, if it has a different one.
	Socket, Controller string
	// Parameters are the parameters of volumes.
	Parameters map[string]string
	// Secrets are the secrets of each request.
	Secrets map[string]string
	// Skip are regular expressions of checks that cannot run, with the reasons.
	Skip map[string]string
	// Fails are the names of checks that the driver fails, with the reasons. They must fail.
	Fails map[string]string
	// Least is how many checks have to pass.
	Least int
}

// Check runs csi-sanity. The test fails if a check fails that should pass, or the reverse.
func Check(t testing.TB, o Options) {
	t.Helper()
	folder := t.TempDir()
	report := filepath.Join(folder, "report.xml")
	args := []string{"--csi.endpoint=unix://" + o.Socket, "--ginkgo.no-color", "--ginkgo.junit-report=" + report,
		"--csi.mountdir=" + filepath.Join(folder, "target"), "--csi.stagingdir=" + filepath.Join(folder, "staging")}
	if o.Controller != "" {
		args = append(args, "--csi.controllerendpoint=unix://"+o.Controller)
	}
	if o.Parameters != nil {
		args = append(args, "--csi.testvolumeparameters="+write(t, folder, "parameters.yaml", o.Parameters))
	}
	if o.Secrets != nil {
		ofRequests := map[string]map[string]string{}
		for _, request := range requestsWithSecrets {
			ofRequests[request+"Secret"] = o.Secrets
		}
		args = append(args, "--csi.secrets="+write(t, folder, "secrets.yaml", ofRequests))
	}
	for pattern := range o.Skip {
		args = append(args, "--ginkgo.skip="+pattern)
	}
	out, runErr := exec.CommandContext(t.Context(), program(t), args...).CombinedOutput()
	outcomes, err := read(report)
	if err != nil {
		t.Fatalf("csi-sanity: %v, %v\n%s", runErr, err, out)
	}
	passed := 0
	for name, failure := range outcomes {
		reason, expected := o.Fails[name]
		switch {
		case failure == "":
			passed++
			if expected {
				t.Errorf("%s passes: remove it from Fails", name)
			}
		case !expected:
			t.Errorf("%s: %s", name, failure)
		default:
			t.Logf("fails: %s: %s", name, reason)
		}
	}
	for name := range o.Fails {
		if _, ran := outcomes[name]; !ran {
			t.Errorf("%s is expected to fail, and has not run", name)
		}
	}
	for pattern, reason := range o.Skip {
		t.Logf("not run: %s: %s", pattern, reason)
	}
	t.Logf("%d checks of csi-sanity pass", passed)
	if passed < o.Least {
		t.Errorf("%d checks pass, want at least %d\n%s", passed, o.Least, out)
	}
}

// requestsWithSecrets are the requests that csi-sanity takes secrets for.
var requestsWithSecrets = []string{
	"CreateVolume", "DeleteVolume", "ControllerPublishVolume", "ControllerUnpublishVolume", "ControllerValidateVolumeCapabilities",
	"NodeStageVolume", "NodePublishVolume", "CreateSnapshot", "DeleteSnapshot", "ControllerExpandVolume", "ControllerModifyVolume",
	"ListSnapshots", "GetSnapshot",
}

// write writes a file with YAML into a folder, and returns its path.
func write(t testing.TB, folder, name string, content any) string {
	t.Helper()
	data, err := yaml.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// program builds csi-sanity, and returns its path.
func program(t testing.TB) string {
	t.Helper()
	path, err := tools.Program{Name: "csi-sanity", Package: "github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity", Folder: "lab/modules/csi-sanity",
		Flags: []string{"-ldflags", "-s -w"}}.Ensure(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// read returns, by name, how each check that ran has failed; "" if it passed.
func read(report string) (map[string]string, error) {
	content, err := os.ReadFile(report)
	if err != nil {
		return nil, err
	}
	var suites struct {
		Suites []struct {
			Cases []struct {
				Name    string `xml:"name,attr"`
				Status  string `xml:"status,attr"`
				Failure *struct {
					Message string `xml:"message,attr"`
					Text    string `xml:",chardata"`
				} `xml:"failure"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(content, &suites); err != nil {
		return nil, err
	}
	outcomes := map[string]string{}
	for _, suite := range suites.Suites {
		for _, c := range suite.Cases {
			if !slices.Contains([]string{"passed", "failed", "panicked", "timedout"}, c.Status) {
				continue
			}
			name := strings.TrimPrefix(c.Name, "[It] ")
			outcomes[name] = ""
			if c.Failure != nil {
				outcomes[name] = strconv.Quote(c.Failure.Message + " " + c.Failure.Text)
			}
		}
	}
	return outcomes, nil
}
