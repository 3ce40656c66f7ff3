package gcp

import (
	"fmt"
	"net/http"
	"strings"
)

// MetadataHandler serves the metadata of an instance as its metadata server does. It gives no access tokens: the service
// account of nodes may not manage disks.
func (c *Cloud) MetadataHandler(i *Instance) http.Handler {
	values := map[string]string{
		"project/project-id":         c.options.Project,
		"project/numeric-project-id": fmt.Sprint(projectNumber),
		"instance/id":                fmt.Sprint(i.ID),
		"instance/name":              i.Name,
		"instance/hostname":          i.Name + "." + i.in.name + ".c." + c.options.Project + ".internal",
		"instance/zone":              fmt.Sprintf("projects/%d/zones/%s", projectNumber, i.in.name),
		"instance/machine-type":      fmt.Sprintf("projects/%d/machineTypes/%s", projectNumber, i.MachineType[strings.LastIndex(i.MachineType, "/")+1:]),
		"universe/universe-domain":   "googleapis.com",
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Metadata-Flavor", "Google")
		path, found := strings.CutPrefix(r.URL.Path, "/computeMetadata/v1/")
		switch value, known := values[path]; {
		case r.URL.Path == "/": // clients ask it whether they are on an instance
			fmt.Fprintln(w, "computeMetadata/")
		case r.Header.Get("Metadata-Flavor") != "Google" || r.Header.Get("X-Forwarded-For") != "":
			http.Error(w, "Missing Metadata-Flavor:Google header.", http.StatusForbidden)
		case !found || !known:
			http.Error(w, "404 page not found", http.StatusNotFound)
		default:
			w.Header().Set("Content-Type", "application/text")
			fmt.Fprint(w, value)
		}
	})
}
