package mustgather

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/websocket"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/yaml"

	sharedvolume "github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
	"github.com/berth-csi/berth/test/hostile"
)

var allPairs = flag.Bool("all-pairs", false, "try each hostile text in each field, and not one of them")

// elsewhere is the name of a file outside of the archive.
var elsewhere = strings.Repeat("../", 3) + "escaped"

// texts returns what is tried in each field: the credentials of the corpus that are found in any text, also where a client breaks lines, a file
// elsewhere, and what controls a terminal or starts a program.
func texts() []string {
	all := []string{hostile.Short(), elsewhere, "a\x1b[2J\x1b]0;title\a\rb\u009b1m\u202e\u200b\x7f"}
	for _, c := range corpus {
		if plain := secret.ReplaceAllString(c.log, "$1"); strings.Contains(c.log, "«") {
			all = append(all, plain, strings.Repeat("sea ", 15)+plain)
		}
	}
	for i, text := range all {
		all[i] = strings.ToValidUTF8(text, "?") // as in JSON
	}
	return all
}

const (
	driver, operator                     = "efs.csi.aws.com", "aws-efs-operator"
	operatorNamespace, driverNamespace   = "operators", "drivers"
	namespaceUID, deploymentUID, setUID  = "uid-of-namespace", "uid-of-deployment", "uid-of-set"
	clusterStorage, clusterStorageFolder = "cluster-storage-operator", "openshift-cluster-storage-operator"
	version                              = operator + ".v1.0.0"
)

// api is a server with objects of each kind. It validates nothing, so that each text can be in each field.
type api struct {
	t       *testing.T
	objects map[string][]object
	fields  map[string]int
	texts   []string
	round   int
	logs    string
}

// newAPI returns a server whose objects lead the script to all that it collects.
func newAPI(t *testing.T, texts []string, round int) *api {
	t.Helper()
	a := &api{t: t, objects: map[string][]object{}, fields: map[string]int{}, texts: texts, round: round}
	a.logs = strings.Join(texts, "\n") + "\n\x80\x9b31m \xc2\x9b31m \xff\xfe\x00\x1b[31m\n"
	schemas := definitions(t)
	for resource := range kinds {
		add := func(namespace, name string) {
			made, n := fill(t, schemas, resource, texts, round)
			a.fields[resource] = n
			meta := made["metadata"].(object)
			meta["name"] = name
			meta["annotations"].(object)["row"] = resource + "-row"
			delete(meta, "namespace")
			if namespace != "" {
				meta["namespace"] = namespace
			}
			lead(resource, made)
			a.objects[resource] = append(a.objects[resource], made)
		}
		for _, namespace := range namespacesOf(resource) {
			for _, name := range namesOf(resource, namespace) {
				add(namespace, name)
			}
			add(namespace, elsewhere)
		}
	}
	return a
}

// namespacesOf returns the namespaces in which there are objects of a resource.
func namespacesOf(resource string) []string {
	if !kinds[resource].namespaced {
		return []string{""}
	}
	switch resource {
	case "catalogsources":
		return []string{"openshift-marketplace", operatorNamespace}
	case "credentialsrequests":
		return []string{"openshift-cloud-credential-operator"}
	case "persistentvolumeclaims", "volumesnapshots", "volumegroupsnapshots", "csistoragecapacities":
		return []string{"team"}
	}
	return []string{operatorNamespace, driverNamespace, clusterStorageFolder}
}

// namesOf returns the names of the objects that lead to others.
func namesOf(resource, namespace string) []string {
	switch resource {
	case "clustercsidrivers", "csidrivers":
		return []string{driver}
	case "clusterversions":
		return []string{"version"}
	case "clusteroperators":
		return []string{"storage"}
	case "namespaces":
		return []string{operatorNamespace, driverNamespace, clusterStorageFolder}
	case "clusterserviceversions":
		return []string{version}
	case "customresourcedefinitions":
		return []string{"sharedvolumes.aws-efs.managed.openshift.io"}
	case "configmaps":
		return []string{"openshift-service-ca.crt"}
	case "deployments":
		return []string{map[string]string{operatorNamespace: operator, driverNamespace: "controller", clusterStorageFolder: clusterStorage}[namespace]}
	}
	return []string{"cluster"} // as the configuration of OpenShift is called
}

// lead gives an object what makes the script collect it, or others.
func lead(resource string, of object) {
	meta := of["metadata"].(object)
	spec, _ := of["spec"].(object)
	switch resource {
	case "clustercsidrivers":
		meta["finalizers"] = append(meta["finalizers"].([]any), operator+".operator.openshift.io/uninstall")
		for key, value := range map[string]string{"operator-namespace": operatorNamespace, "driver-namespace": driverNamespace, "driver-namespace-uid": namespaceUID} {
			meta["annotations"].(object)["berth.dev/"+key] = value
		}
	case "namespaces":
		meta["uid"] = namespaceUID
	case "clusterroles":
		of["rules"] = append(of["rules"].([]any), object{"apiGroups": []any{"operator.openshift.io"}, "resources": []any{"clustercsidrivers"}, "resourceNames": []any{driver}, "verbs": []any{"get"}})
	case "clusterrolebindings":
		of["roleRef"].(object)["name"] = "cluster"
		of["subjects"] = append(of["subjects"].([]any), object{"kind": "ServiceAccount", "namespace": operatorNamespace, "name": operator})
	case "deployments", "daemonsets":
		meta["uid"] = deploymentUID
		meta["labels"].(object)["olm.owner"] = version
		spec["selector"] = object{"matchLabels": object{"app": "driver"}} // the API server, and the client, admit no other
		containers := spec["template"].(object)["spec"].(object)["containers"].([]any)
		container := containers[0].(object)
		container["env"] = append([]any{object{"name": "RELEASE_VERSION", "value": "1.0.0"}}, container["env"].([]any)...)
		container["args"] = append(container["args"].([]any), "--kubelet-registration-path=/var/lib/kubelet/plugins/"+driver+"/csi.sock")
	case "replicasets":
		meta["uid"] = setUID
		meta["ownerReferences"].([]any)[0].(object)["uid"] = deploymentUID
	case "pods":
		meta["ownerReferences"].([]any)[0].(object)["uid"] = setUID
		status := of["status"].(object)
		status["phase"], status["podIP"] = "Running", "127.0.0.1"
		status["containerStatuses"].([]any)[0].(object)["name"] = "driver"
		container := spec["containers"].([]any)[0].(object)
		container["name"] = "driver"
		container["volumeMounts"].([]any)[0].(object)["mountPath"] = "/var/log/amazon/efs"
	case "customresourcedefinitions":
		spec["scope"] = "Namespaced"
	case "clusterserviceversions":
		owned := spec["customresourcedefinitions"].(object)["owned"].([]any)
		spec["customresourcedefinitions"].(object)["owned"] = append(owned, object{"name": "sharedvolumes.aws-efs.managed.openshift.io"})
	case "persistentvolumes":
		spec["csi"].(object)["driver"] = driver
		spec["claimRef"].(object)["namespace"], spec["claimRef"].(object)["name"] = "team", "cluster"
	case "storageclasses":
		of["provisioner"] = driver
	case "volumeattachments":
		spec["attacher"] = driver
	case "volumeattributesclasses":
		of["driverName"] = driver
	case "volumesnapshotclasses", "volumegroupsnapshotclasses":
		of["driver"] = driver
	case "volumesnapshotcontents", "volumegroupsnapshotcontents":
		spec["driver"] = driver
		ref := map[string]string{"volumesnapshotcontents": "volumeSnapshotRef", "volumegroupsnapshotcontents": "volumeGroupSnapshotRef"}[resource]
		spec[ref].(object)["namespace"], spec[ref].(object)["name"] = "team", "cluster"
	case "csistoragecapacities":
		of["storageClassName"] = "cluster"
	}
}

// serveMetrics serves metrics as the operator does, and leads the script there.
func (a *api) serveMetrics() {
	certificate, key, err := cert.GenerateSelfSignedCertKey(operator+"-metrics."+operatorNamespace+".svc", nil, []string{clusterStorage + "-metrics." + clusterStorageFolder + ".svc"})
	require.NoError(a.t, err)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, a.logs) }))
	pair, err := tls.X509KeyPair(certificate, key)
	require.NoError(a.t, err)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.StartTLS()
	a.t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	require.NoError(a.t, err)
	number, err := strconv.Atoi(port)
	require.NoError(a.t, err)
	for _, of := range a.objects["deployments"] {
		container := of["spec"].(object)["template"].(object)["spec"].(object)["containers"].([]any)[0].(object)
		container["ports"] = append(container["ports"].([]any), object{"name": "https", "containerPort": number})
	}
	for _, of := range a.objects["configmaps"] {
		of["data"].(object)["service-ca.crt"] = string(certificate)
	}
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if answer := discovered(path); answer != nil {
		a.answer(w, http.StatusOK, answer)
		return
	}
	rest := path[2:]
	if path[0] == "apis" {
		rest = path[3:]
	}
	namespace := ""
	if len(rest) > 2 && rest[0] == "namespaces" {
		namespace, rest = rest[1], rest[2:]
	}
	found := []object{}
	for _, of := range a.objects[rest[0]] {
		if meta := of["metadata"].(object); (namespace == "" || meta["namespace"] == namespace) && (len(rest) == 1 || meta["name"] == rest[1]) {
			found = append(found, of)
		}
	}
	switch {
	case len(rest) == 1:
		kind := kinds[rest[0]]
		a.answer(w, http.StatusOK, object{"apiVersion": strings.TrimPrefix(kind.group+"/"+kind.version, "/"), "kind": kind.kind + "List", "metadata": object{}, "items": found})
	case strings.HasSuffix(r.URL.Path, "/token"):
		a.answer(w, http.StatusCreated, object{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": object{}, "spec": object{"audiences": []any{}}, "status": object{"token": "hunter2-token", "expirationTimestamp": someTime}})
	case len(found) == 0:
		a.answer(w, http.StatusNotFound, object{"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404, "message": "not found: " + a.texts[a.round%len(a.texts)]})
	case strings.HasSuffix(r.URL.Path, "/log"):
		fmt.Fprint(w, a.logs)
	case strings.HasSuffix(r.URL.Path, "/exec"):
		a.exec(w, r)
	default:
		a.answer(w, http.StatusOK, found[0])
	}
}

func (a *api) answer(w http.ResponseWriter, code int, of any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	err := json.NewEncoder(w).Encode(of)
	if err != nil && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) { // a client that has no memory left ends
		a.t.Error(err)
	}
}

// exec answers like a program that writes the log and ends.
func (a *api) exec(w http.ResponseWriter, r *http.Request) {
	websocket.Server{
		Handshake: func(config *websocket.Config, _ *http.Request) error {
			config.Protocol = []string{"v5.channel.k8s.io"}
			return nil
		},
		Handler: func(c *websocket.Conn) {
			c.PayloadType = websocket.BinaryFrame
			for _, frame := range []string{"\x01" + a.logs, "\x03" + `{"metadata":{},"status":"Success"}`} { // standard output, and how it ended
				if _, err := c.Write([]byte(frame)); err != nil {
					a.t.Error(err)
				}
			}
			if err := c.WriteClose(1000); err != nil {
				a.t.Error(err)
			}
		},
	}.ServeHTTP(w, r)
}

// discovered returns the answer to a discovery request, which lists the APIs of the server. It returns nil for other requests.
func discovered(path []string) any {
	groups := map[string][]any{}
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		kind := kinds[name]
		groupVersion := strings.TrimPrefix(kind.group+"/"+kind.version, "/")
		groups[groupVersion] = append(groups[groupVersion], object{"name": name, "singularName": strings.ToLower(kind.kind), "namespaced": kind.namespaced, "kind": kind.kind, "verbs": []any{"get", "list"}})
	}
	switch asked := strings.Join(path, "/"); {
	case asked == "version":
		return object{"major": "1", "minor": "34", "gitVersion": "v1.34.0"}
	case asked == "api":
		return object{"kind": "APIVersions", "versions": []any{"v1"}}
	case asked == "apis":
		versions := map[string][]any{}
		var all []any
		for groupVersion := range groups {
			if group, version, is := strings.Cut(groupVersion, "/"); is {
				versions[group] = append(versions[group], object{"groupVersion": groupVersion, "version": version})
			}
		}
		for _, group := range slices.Sorted(maps.Keys(versions)) {
			all = append(all, object{"name": group, "versions": versions[group], "preferredVersion": versions[group][0]})
		}
		return object{"kind": "APIGroupList", "apiVersion": "v1", "groups": all}
	case len(path) == 2 && path[0] == "api" || len(path) == 3 && path[0] == "apis":
		groupVersion := strings.Join(path[1:], "/")
		return object{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": groupVersion, "resources": groups[groupVersion]}
	}
	return nil
}

// TestPairs has the script collect objects of each kind with a hostile text in each field, and looks at each file: a terminal shows it as
// it is, no credential is left, its objects are the server's, it is within the folder, and what was redacted is counted.
func TestPairs(t *testing.T) {
	all := texts()
	rounds := 1
	if *allPairs {
		rounds = len(all)
	}
	for round := range rounds {
		t.Run(strconv.Itoa(round), func(t *testing.T) { checkPairs(t, newAPI(t, all, round)) })
	}
}

// command returns the script, which is to collect from the server.
func (a *api) command(folder string) *exec.Cmd {
	a.t.Helper()
	a.serveMetrics()
	server := httptest.NewServer(a)
	a.t.Cleanup(server.Close)
	kubeconfig := filepath.Join(a.t.TempDir(), "kubeconfig")
	require.NoError(a.t, os.WriteFile(kubeconfig, fmt.Appendf(nil, `{clusters: [{name: c, cluster: {server: %q}}], contexts: [{name: c, context: {cluster: c}}], current-context: c}`, server.URL), 0o600))
	return Command(a.t, kubeconfig, folder)
}

// TestLargeObjects: a team that fills a file with its own objects hides nobody else's.
func TestLargeObjects(t *testing.T) {
	a := newAPI(t, []string{"harmless"}, 0)
	made := func(namespace, name, annotation string) object {
		return object{"apiVersion": sharedvolume.GroupVersion.String(), "kind": "SharedVolume", "metadata": object{"namespace": namespace, "name": name, "annotations": object{"a": annotation}}}
	}
	large := strings.Repeat("much ", 1<<20/5)
	for i := range 17 {
		a.objects["sharedvolumes"] = append(a.objects["sharedvolumes"], made("aaa", fmt.Sprintf("large-%d", i), large))
	}
	a.objects["sharedvolumes"] = append(a.objects["sharedvolumes"], made("shop", "website", "little"))
	folder := filepath.Join(t.TempDir(), "must-gather")
	out, err := a.command(folder).CombinedOutput()
	require.NoErrorf(t, err, "%s", out)
	all := driver + "/apis/sharedvolumes.aws-efs.managed.openshift.io/objects"
	files := Files(t, folder)
	assert.Contains(t, files[all+"/shop.yaml"], "name: website")
	assert.Contains(t, files["missing.txt"], all+"/aaa.yaml: is longer than 16777216 bytes; its head is in "+all+"/aaa.yaml.cut")
}

// TestForgedNamespaces: SharedVolumes in very many namespaces, or large ones that nobody can list, take no place of those in namespaces with claims to
// which volumes of the driver are bound.
func TestForgedNamespaces(t *testing.T) {
	for name, test := range map[string]struct {
		objects           int // in each of these namespaces
		size              int
		is, wanted, lacks string
	}{
		"many":  {1, 1, "max_namespaces=500", "max_namespaces=2", "aab"},
		"large": {100, 1 << 20, "max_memory=$((4 << 20))", "max_memory=$((1 << 20))", "aaa"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAPI(t, []string{"harmless"}, 0)
			for _, namespace := range []string{"aaa", "aab"} {
				for i := range test.objects {
					a.objects["sharedvolumes"] = append(a.objects["sharedvolumes"], object{"apiVersion": sharedvolume.GroupVersion.String(), "kind": "SharedVolume",
						"metadata": object{"namespace": namespace, "name": fmt.Sprintf("forged-%d", i), "annotations": object{"a": strings.Repeat("m", test.size)}}})
				}
			}
			a.objects["sharedvolumes"] = append(a.objects["sharedvolumes"], object{"apiVersion": sharedvolume.GroupVersion.String(), "kind": "SharedVolume",
				"metadata": object{"namespace": "team", "name": "website"}})
			folder := filepath.Join(t.TempDir(), "must-gather")
			command := a.command(folder)
			limit(t, command, test.is, test.wanted)
			out, err := command.CombinedOutput()
			require.NoErrorf(t, err, "%s", out)
			files, all := Files(t, folder), driver+"/apis/sharedvolumes.aws-efs.managed.openshift.io/objects"
			assert.Contains(t, files, all+"/team.yaml", "the namespace of a claim to which a volume is bound")
			assert.NotContains(t, files, all+"/"+test.lacks+".yaml", "the limit")
			assert.Contains(t, files["missing.txt"], all+": ")
		})
	}
}

// TestTeamsComeLast: claims and SharedVolumes that fill the archive leave room for the objects and logs of the driver and its operator, and for its
// volumes.
func TestTeamsComeLast(t *testing.T) {
	want := gathered(t, newAPI(t, []string{"harmless"}, 0), "MUST_GATHER_MIB=5120")
	a := newAPI(t, []string{"harmless"}, 0)
	for i := range 40 {
		a.objects["persistentvolumeclaims"] = append(a.objects["persistentvolumeclaims"], object{"apiVersion": "v1", "kind": "PersistentVolumeClaim",
			"metadata": object{"namespace": "aaa", "name": fmt.Sprintf("large-%d", i), "annotations": object{"volume.kubernetes.io/storage-provisioner": driver, "a": strings.Repeat("much ", 1<<18/5)}}})
	}
	files := gathered(t, a, "MUST_GATHER_MIB=8")
	require.Contains(t, files["missing.txt"], "reached the limit of 8 MiB")
	var lacks []string
	for file := range want {
		own := strings.HasPrefix(file, driver+"/namespaces/") || strings.HasPrefix(file, driver+"/operator/") || strings.HasPrefix(file, driver+"/objects/") ||
			inNoNamespace.MatchString(file)
		if _, has := files[file]; own && !has {
			lacks = append(lacks, file)
		}
	}
	assert.Empty(t, lacks)
}

// inNoNamespace matches the files with a driver's volumes, contents of snapshots and classes.
var inNoNamespace = regexp.MustCompile(`^[^/]+/(persistentvolumes|volumeattachments|[a-z]+classes|[a-z]+contents)-1\.yaml$`)

// TestSizeOfTeamsFiles: claims in many namespaces, each of which has a file of its own, do not make the archive larger than its limit and one file.
func TestSizeOfTeamsFiles(t *testing.T) {
	a := newAPI(t, []string{"harmless"}, 0)
	for i := range 40 {
		a.objects["persistentvolumeclaims"] = append(a.objects["persistentvolumeclaims"], object{"apiVersion": "v1", "kind": "PersistentVolumeClaim",
			"metadata": object{"namespace": fmt.Sprintf("aaa-%d", i), "name": "large", "annotations": object{"volume.kubernetes.io/storage-provisioner": driver, "a": strings.Repeat("much ", 1<<18/5)}}})
	}
	size := 0
	for _, text := range gathered(t, a, "MUST_GATHER_MIB=4") {
		size += len(text)
	}
	assert.Less(t, size, 6<<20)
}

// gathered returns the files that the script collects with a setting.
func gathered(t *testing.T, a *api, setting string) map[string]string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "must-gather")
	command := a.command(folder)
	command.Env = append(command.Env, setting)
	out, err := command.CombinedOutput()
	require.NoErrorf(t, err, "%s", out)
	return Files(t, folder)
}

// limit makes a command run the script with another limit.
func limit(t *testing.T, command *exec.Cmd, is, wanted string) {
	t.Helper()
	script, err := os.ReadFile(command.Path)
	require.NoError(t, err)
	require.Contains(t, string(script), "\n"+is+"\n")
	command.Path = filepath.Join(t.TempDir(), "gather")
	require.NoError(t, os.WriteFile(command.Path, []byte(strings.Replace(string(script), "\n"+is+"\n", "\n"+wanted+"\n", 1)), 0o700))
}

// TestMemoryOfTheClient: claims and StorageClasses that fill the memory of the client keep nothing but the lists of these from being collected, and
// missing.txt says so.
func TestMemoryOfTheClient(t *testing.T) {
	a := newAPI(t, []string{"harmless"}, 0)
	large := strings.Repeat("m", 1<<20)
	for i := range 200 {
		a.objects["persistentvolumeclaims"] = append(a.objects["persistentvolumeclaims"], object{"apiVersion": "v1", "kind": "PersistentVolumeClaim",
			"metadata": object{"namespace": "aaa", "name": fmt.Sprintf("large-%d", i)}, "spec": object{"volumeName": large}})
		a.objects["storageclasses"] = append(a.objects["storageclasses"], object{"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
			"metadata": object{"name": fmt.Sprintf("large-%d", i)}, "provisioner": "other.example.com", "parameters": object{"a": large}})
	}
	folder := filepath.Join(t.TempDir(), "must-gather")
	command := a.command(folder)
	limit(t, command, "max_memory=$((4 << 20))", "max_memory=$((1 << 20))")
	out, err := command.CombinedOutput()
	require.NoErrorf(t, err, "%s", out)
	files := Files(t, folder)
	for _, kind := range []string{"persistentvolumeclaims", "storageclasses"} {
		assert.Regexp(t, `(?m)^`+driver+`/`+kind+`: .{0,900}out of memory.{0,900}$`, files["missing.txt"])
	}
	assert.Contains(t, files, driver+"/persistentvolumeclaims/team-1.yaml", "the claim to which a volume is bound")
}

// TestForgedClaims: claims that only say themselves that they are the driver's take no place of those to which its volumes are bound.
func TestForgedClaims(t *testing.T) {
	a := newAPI(t, []string{"harmless"}, 0)
	for _, namespace := range []string{"aaa", "aab"} {
		a.objects["persistentvolumeclaims"] = append(a.objects["persistentvolumeclaims"], object{"apiVersion": "v1", "kind": "PersistentVolumeClaim",
			"metadata": object{"namespace": namespace, "name": "forged", "annotations": object{"volume.kubernetes.io/storage-provisioner": driver}}})
	}
	folder := filepath.Join(t.TempDir(), "must-gather")
	command := a.command(folder)
	limit(t, command, "max_namespaces=500", "max_namespaces=2")
	out, err := command.CombinedOutput()
	require.NoErrorf(t, err, "%s", out)
	files := Files(t, folder)
	assert.Contains(t, files, driver+"/persistentvolumeclaims/team-1.yaml", "the claim to which a volume is bound")
	assert.Contains(t, files, driver+"/persistentvolumeclaims/aaa-1.yaml")
	assert.NotContains(t, files, driver+"/persistentvolumeclaims/aab-1.yaml", "the limit")
}

func checkPairs(t *testing.T, a *api) {
	t.Helper()
	above := t.TempDir()
	folder := filepath.Join(above, "a", "b", "must-gather")
	command := a.command(folder)
	asked := record(t, command.Env[0])
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	require.NoErrorf(t, err, "%s%s", out, stderr.Bytes())
	assert.Empty(t, stderr.String(), "standard error")

	for _, resource := range asked() {
		if _, is := kinds[resource]; !is {
			t.Errorf("the script reads %s: add it to kinds", resource)
		}
	}
	for path := range Files(t, above) {
		if !regexp.MustCompile(`^a/b/must-gather(/[A-Za-z0-9][A-Za-z0-9.-]*)+$`).MatchString(path) {
			t.Errorf("it wrote %q", path)
		}
	}
	files := Files(t, folder)
	hostile.Check(t, "standard output", string(out), 1<<10)
	for line := range strings.Lines(files["missing.txt"]) {
		if !strings.Contains(line, ": Error from server (NotFound): not found: ") { // what hostile names name is not there
			t.Errorf("not collected: %s", line)
		}
		assert.LessOrEqualf(t, len(line), 4<<10, "missing.txt: the length of %.100q", line)
	}
	pairs := map[string]int{} // the fields that were tried, by resource
	redacted, total := map[string]int{}, 0
	for path, content := range files {
		checkVisible(t, path, content)
		checkCredentials(t, path, content)
		for resource := range kinds {
			if strings.Contains(content, resource+"-row") {
				pairs[resource] += a.fields[resource]
			}
		}
		if strings.HasSuffix(path, ".yaml") {
			checkStructure(t, a, path, content)
		}
		for line := range strings.Lines(content) {
			if path != "redacted.txt" && (strings.Contains(line, "<redacted>") || strings.Contains(line, "<left out>")) {
				redacted[path]++
				total++
			}
		}
	}
	for resource, kind := range kinds {
		if tried := pairs[resource] > 0; tried == kind.onlyRead {
			t.Errorf("%s: %d pairs of fields and files were tried", resource, pairs[resource])
		}
	}
	counted := map[string]int{}
	for line := range strings.Lines(files["redacted.txt"]) {
		if n, path, is := strings.Cut(strings.TrimSpace(line), " "); is && path != "lines with redactions in all" {
			counted[path], err = strconv.Atoi(n)
			require.NoError(t, err)
		}
	}
	assert.Equal(t, redacted, counted, "redacted.txt")
	sum := 0
	for _, n := range pairs {
		sum += n
	}
	t.Logf("%d pairs of a field and a file, in %d files with %d lines with redactions", sum, len(files), total)
}

// record has the script's client note its arguments, and returns a function that returns the resources that were read.
func record(t *testing.T, path string) func() []string {
	t.Helper()
	bin := strings.TrimPrefix(path, "PATH=")
	client, log := filepath.Join(bin, "kubectl"), filepath.Join(t.TempDir(), "asked")
	real, err := os.Readlink(client)
	require.NoError(t, err)
	require.NoError(t, os.Remove(client))
	require.NoError(t, os.WriteFile(client, fmt.Appendf(nil, "#!%s\necho \"$*\" >>%q\nexec %q \"$@\"\n", filepath.Join(bin, "bash"), log, real), 0o700))
	read := regexp.MustCompile(`^(?:--request-timeout=60s )?get ([a-z]+)`)
	return func() []string {
		var all []string
		content, err := os.ReadFile(log)
		require.NoError(t, err)
		for line := range strings.Lines(string(content)) {
			if found := read.FindStringSubmatch(line); found != nil {
				all = append(all, plural(found[1]))
			}
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
}

// plural returns the resource that a word of a command line means.
func plural(word string) string {
	for resource, kind := range kinds {
		if word == strings.ToLower(kind.kind) {
			return resource
		}
	}
	return word
}

// checkVisible fails unless a terminal shows a text as it is.
func checkVisible(t *testing.T, path, content string) {
	t.Helper()
	if !utf8.ValidString(content) {
		t.Errorf("%s is not UTF-8", path)
	}
	for line := range strings.Lines(content) {
		if strings.ContainsFunc(strings.TrimSuffix(line, "\n"), func(r rune) bool {
			return r != '\t' && (!unicode.IsPrint(r) || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector))
		}) {
			t.Errorf("%s has characters that are not visible: %.200q", path, line)
			return
		}
	}
}

// secretWords are the parts of credentials that no file may have.
var secretWords = func() []string {
	words := []string{credential, "hunter2-token"}
	for _, c := range corpus {
		for _, match := range secret.FindAllStringSubmatch(c.log, -1) {
			words = append(words, regexp.MustCompile(`[A-Za-z0-9]{8,}`).FindAllString(match[1], -1)...)
		}
	}
	slices.Sort(words)
	return slices.Compact(words)
}()

func checkCredentials(t *testing.T, path, content string) {
	t.Helper()
	for _, word := range secretWords {
		if at := strings.Index(content, word); at >= 0 {
			t.Errorf("%s has %q of a credential: %q", path, word, content[max(0, at-150):at+len(word)])
		}
	}
}

// checkStructure fails unless a file has objects of the server, each with its name and kind.
func checkStructure(t *testing.T, a *api, path, content string) {
	t.Helper()
	var read object
	if err := yaml.Unmarshal([]byte(content), &read); err != nil {
		t.Errorf("%s: %v", path, err)
		return
	}
	items, is := read["items"].([]any)
	if !is {
		items = []any{read}
	}
	for _, item := range items {
		of := item.(object)
		kind, _ := of["kind"].(string)
		meta, _ := of["metadata"].(object)
		if resource := plural(strings.ToLower(kind)); kinds[resource].kind != kind || meta["annotations"].(object)["row"] != resource+"-row" {
			t.Errorf("%s has an object of kind %q with the metadata %v", path, kind, meta)
		}
	}
}
