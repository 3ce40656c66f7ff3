package gcp

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"
)

// projectNumber is the number of the project.
const projectNumber = 123456789012

// base begins the URLs of resources, regardless of a client's endpoint and version.
const base = "https://www.googleapis.com/compute/v1/"

// maxBody is more than the largest request.
const maxBody = 1 << 20

// request is a request to Compute Engine or the Resource Manager, by a service account. The lock is held.
type request struct {
	*http.Request
	email string
	body  []byte
}

// decode reads the body.
func (r *request) decode(into any) *fault {
	if err := json.Unmarshal(r.body, into); err != nil {
		return faultf(http.StatusBadRequest, "parseError", "Invalid JSON payload received. %v", err)
	}
	return nil
}

// place is a zone or a region.
type place struct {
	scope string // "zones" or "regions"
	name  string
}

func (p place) path() string { return p.scope + "/" + p.name }

// placeOf returns the place in the path of a request.
func (c *Cloud) placeOf(r *request) (place, *fault) {
	if zone := r.PathValue("zone"); zone != "" {
		return c.zone(zone)
	}
	region := r.PathValue("region")
	if region != c.options.Region {
		return place{}, invalid("Invalid value for field 'region': '%s'. Unknown region.", region)
	}
	return place{"regions", region}, nil
}

func (c *Cloud) zone(name string) (place, *fault) {
	for _, known := range c.Zones() {
		if known == name {
			return place{"zones", name}, nil
		}
	}
	return place{}, invalid("Invalid value for field 'zone': '%s'. Unknown zone.", name)
}

// method is something that a client can ask for.
type method struct {
	// name is the name of the method in Google's API, such as "compute.disks.insert".
	name string
	// permission is needed for the project. The request's resources may need more.
	permission string
	do         func(*request) (any, *fault)
}

// handler serves all services.
func (c *Cloud) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /token", c.grantToken)
	mux.HandleFunc("POST /v1/token", c.exchangeToken)
	mux.HandleFunc("POST /v1/projects/-/serviceAccounts/{account}", c.impersonate)
	for pattern, m := range map[string]method{
		"GET /v3/tagValues/namespaced": {"cloudresourcemanager.tagValues.getNamespaced", "resourcemanager.tagValues.get", c.getTagValue},
		"GET /v3/effectiveTags":        {"cloudresourcemanager.effectiveTags.list", "", c.listEffectiveTags},
		"POST /v3/tagBindings":         {"cloudresourcemanager.tagBindings.create", "resourcemanager.tagValueBindings.create", c.bindTag},
	} {
		mux.Handle(pattern, c.serve(m))
	}
	for pattern, m := range c.compute() {
		verb, path, _ := strings.Cut(pattern, " ")
		mux.Handle(verb+" /compute/{version}/projects/{project}/"+path, c.serve(m))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		c.record(Call{Method: r.Method, Path: r.URL.Path, Error: "notFound"})
		notFound(r.URL.Path).write(w)
	})
	return mux
}

// compute returns the methods of Compute Engine, by the path below the project.
func (c *Cloud) compute() map[string]method {
	all := map[string]method{
		"GET zones":                                         {"compute.zones.list", "compute.zones.list", c.listZones},
		"GET aggregated/diskTypes":                          {"compute.diskTypes.aggregatedList", "compute.diskTypes.list", c.listDiskTypes},
		"GET zones/{zone}/instances":                        {"compute.instances.list", "compute.instances.list", c.listInstances},
		"GET zones/{zone}/instances/{instance}":             {"compute.instances.get", "compute.instances.get", c.getInstance},
		"POST zones/{zone}/instances/{instance}/attachDisk": {"compute.instances.attachDisk", "compute.instances.attachDisk", c.attachDisk},
		"POST zones/{zone}/instances/{instance}/detachDisk": {"compute.instances.detachDisk", "compute.instances.detachDisk", c.detachDisk},
	}
	for _, kind := range []string{"snapshots", "images"} {
		permission := "compute." + kind + "."
		all["POST global/"+kind] = method{permission + "insert", permission + "create", c.createSnapshot}
		all["GET global/"+kind] = method{permission + "list", permission + "list", c.listSnapshots}
		all["GET global/"+kind+"/{name}"] = method{permission + "get", permission + "get", c.getSnapshot}
		all["DELETE global/"+kind+"/{name}"] = method{permission + "delete", permission + "delete", c.deleteSnapshot}
	}
	for scope, in := range map[string]struct{ disks, operations string }{
		"zones/{zone}": {"disks", "zoneOperations"}, "regions/{region}": {"regionDisks", "regionOperations"}, "global": {"", "globalOperations"},
	} {
		permission := "compute." + in.operations + ".get"
		all["GET "+scope+"/operations/{operation}"] = method{permission, permission, c.getOperation}
		all["POST "+scope+"/operations/{operation}/wait"] = method{"compute." + in.operations + ".wait", permission, c.getOperation}
		if in.disks == "" {
			continue
		}
		name := "compute." + in.disks + "."
		all["POST "+scope+"/disks"] = method{name + "insert", "compute.disks.create", c.createDisk}
		all["GET "+scope+"/disks"] = method{name + "list", "compute.disks.list", c.listDisks}
		all["GET "+scope+"/disks/{disk}"] = method{name + "get", "compute.disks.get", c.getDisk}
		all["DELETE "+scope+"/disks/{disk}"] = method{name + "delete", "compute.disks.delete", c.deleteDisk}
		all["PATCH "+scope+"/disks/{disk}"] = method{name + "update", "compute.disks.update", c.updateDisk}
		all["POST "+scope+"/disks/{disk}/resize"] = method{name + "resize", "compute.disks.resize", c.resizeDisk}
		all["POST "+scope+"/disks/{disk}/setLabels"] = method{name + "setLabels", "compute.disks.setLabels", c.labelDisk}
	}
	return all
}

func (c *Cloud) record(call Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, call)
}

// serve authenticates and authorizes requests for a method, and records them.
func (c *Cloud) serve(m method) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, refusal := c.authenticate(r)
		body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
		if err != nil {
			return // the client is gone
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		of := &request{Request: r, email: caller.account, body: body}
		var response any
		if refusal == nil {
			response, refusal = c.answer(m, of)
		}
		call := Call{Method: m.name, Principal: of.email, Path: r.URL.Path}
		if refusal != nil {
			call.Error = refusal.reason
			c.calls = append(c.calls, call)
			refusal.write(w)
			return
		}
		c.calls = append(c.calls, call)
		writeJSON(w, http.StatusOK, response)
	})
}

func (c *Cloud) answer(m method, r *request) (any, *fault) {
	if project := r.PathValue("project"); project != "" && project != c.options.Project {
		return nil, notFound("projects/" + project)
	}
	if m.permission != "" {
		if refusal := c.may(r.email, m.permission, "projects/"+c.options.Project); refusal != nil {
			return nil, refusal
		}
	}
	response, refusal := m.do(r)
	if refusal != nil {
		return nil, refusal
	}
	if fields := r.URL.Query().Get("fields"); fields != "" {
		return partial(response, fields)
	}
	return response, nil
}

// partial returns the fields of a response that a client asks for, such as "items/name,nextPageToken".
func partial(response any, fields string) (any, *fault) {
	text, err := json.Marshal(response)
	if err != nil {
		return nil, faultf(http.StatusInternalServerError, "backendError", "%v", err)
	}
	var all any
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, faultf(http.StatusInternalServerError, "backendError", "%v", err)
	}
	var paths [][]string
	for _, field := range strings.Split(fields, ",") {
		paths = append(paths, strings.Split(field, "/"))
	}
	return selected(all, paths), nil
}

func selected(from any, paths [][]string) any {
	switch from := from.(type) {
	case []any:
		for i := range from {
			from[i] = selected(from[i], paths)
		}
	case map[string]any:
		for key, value := range from {
			var below [][]string
			whole := false
			for _, path := range paths {
				if path[0] == key {
					whole = whole || len(path) == 1
					below = append(below, path[1:])
				}
			}
			switch {
			case len(below) == 0:
				delete(from, key)
			case !whole:
				from[key] = selected(value, below)
			}
		}
	}
	return from
}

// path returns the path of a resource for messages.
func (c *Cloud) path(below string) string { return "projects/" + c.options.Project + "/" + below }

// url returns the URL of a resource.
func (c *Cloud) url(below string) string { return base + c.path(below) }

// below returns the path below the project of a named resource. A client names it by a URL with any endpoint, or by the path.
func (c *Cloud) below(named string) (string, bool) {
	_, below, found := strings.Cut(named, "projects/"+c.options.Project+"/")
	return below, found
}

func (c *Cloud) nextID() uint64 {
	c.number++
	return 1000000000000000000 + c.number
}

func timestamp(at time.Time) string { return at.Format("2006-01-02T15:04:05.000-07:00") }

var resourceName = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$`)

func checkName(name string) *fault {
	if resourceName.MatchString(name) {
		return nil
	}
	return invalid("Invalid value for field 'resource.name': '%s'. Must be a match of regex '%s'", name, "(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)")
}

var (
	labelKey   = regexp.MustCompile(`^[\p{Ll}\p{Lo}][\p{Ll}\p{Lo}\p{N}_-]{0,62}$`)
	labelValue = regexp.MustCompile(`^[\p{Ll}\p{Lo}\p{N}_-]{0,63}$`)
)

func checkLabels(labels map[string]string) *fault {
	if len(labels) > 64 {
		return invalid("Invalid value for field 'resource.labels': number of labels %d exceeds 64.", len(labels))
	}
	for key, value := range labels {
		if !labelKey.MatchString(key) || !labelValue.MatchString(value) {
			return invalid("Invalid value for field 'resource.labels': '{%s=%s}'. Label is invalid.", key, value)
		}
	}
	return nil
}

// operation is a long-running operation that a request has started.
type operation struct {
	Kind          string `json:"kind"`
	ID            uint64 `json:"id,string"`
	Name          string `json:"name"`
	OperationType string `json:"operationType"`
	TargetLink    string `json:"targetLink"`
	TargetID      uint64 `json:"targetId,string,omitempty"`
	Status        string `json:"status"`
	User          string `json:"user"`
	Progress      int    `json:"progress"`
	InsertTime    string `json:"insertTime"`
	StartTime     string `json:"startTime"`
	EndTime       string `json:"endTime,omitempty"`
	Zone          string `json:"zone,omitempty"`
	Region        string `json:"region,omitempty"`
	SelfLink      string `json:"selfLink"`
	HTTPStatus    int    `json:"httpErrorStatusCode,omitempty"`
	HTTPMessage   string `json:"httpErrorMessage,omitempty"`
	Error         *struct {
		Errors []operationError `json:"errors"`
	} `json:"error,omitempty"`

	scope   string
	done    time.Time
	failure error
}

type operationError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// begin begins an operation for a resource. It ends as the cloud's options say, and fails if failure is not nil.
func (c *Cloud) begin(r *request, scope, kind, target string, id uint64, failure error) *operation {
	now := time.Now()
	o := &operation{
		Kind: "compute#operation", ID: c.nextID(), OperationType: kind, TargetLink: c.url(target), TargetID: id, Status: "RUNNING", User: r.email,
		InsertTime: timestamp(now), StartTime: timestamp(now), scope: scope, done: now.Add(c.options.Settle), failure: failure,
	}
	o.Name = fmt.Sprintf("operation-%d", o.ID)
	o.SelfLink = c.url(scope + "/operations/" + o.Name)
	switch kind, _, _ := strings.Cut(scope, "/"); kind {
	case "zones":
		o.Zone = c.url(scope)
	case "regions":
		o.Region = c.url(scope)
	}
	shown := *o
	c.operations[o.Name] = o
	return &shown
}

// getOperation returns an operation when it has ended, or after a while: a client that waits asks again.
func (c *Cloud) getOperation(r *request) (any, *fault) {
	scope := "global"
	if r.PathValue("zone") != "" || r.PathValue("region") != "" {
		in, refusal := c.placeOf(r)
		if refusal != nil {
			return nil, refusal
		}
		scope = in.path()
	}
	o, ok := c.operations[r.PathValue("operation")]
	if !ok || o.scope != scope {
		return nil, notFound(c.path(scope + "/operations/" + r.PathValue("operation")))
	}
	if left := time.Until(o.done); left > 0 && strings.HasSuffix(r.URL.Path, "/wait") {
		c.mu.Unlock()
		select {
		case <-time.After(left):
		case <-r.Context().Done():
		}
		c.mu.Lock()
	}
	if o.Status == "RUNNING" && !time.Now().Before(o.done) {
		o.Status, o.Progress, o.EndTime = "DONE", 100, timestamp(time.Now())
		if o.failure != nil {
			o.HTTPStatus, o.HTTPMessage = http.StatusServiceUnavailable, "SERVICE UNAVAILABLE"
			o.Error = &struct {
				Errors []operationError `json:"errors"`
			}{[]operationError{{"INTERNAL_ERROR", o.failure.Error()}}}
		}
	}
	shown := *o
	return &shown, nil
}

// list is a page of a list.
type list[T any] struct {
	Kind          string `json:"kind"`
	ID            string `json:"id"`
	Items         []T    `json:"items,omitempty"`
	NextPageToken string `json:"nextPageToken,omitempty"`
	SelfLink      string `json:"selfLink"`
}

// listOf returns the page of a list that a request asks for.
func listOf[T any](c *Cloud, r *request, kind string, all []T) (any, *fault) {
	filtered, refusal := filter(all, r.URL.Query().Get("filter"))
	if refusal != nil {
		return nil, refusal
	}
	page := list[T]{Kind: kind, SelfLink: "https://www.googleapis.com" + r.URL.Path}
	size, start := 500, 0
	if text := r.URL.Query().Get("maxResults"); text != "" {
		if _, err := fmt.Sscan(text, &size); err != nil || size < 1 || size > 500 {
			return nil, invalid("Invalid value for field 'maxResults': '%s'. Must be between 1 and 500.", text)
		}
	}
	if text := r.URL.Query().Get("pageToken"); text != "" {
		if _, err := fmt.Sscan(text, &start); err != nil || start < 0 || start > len(filtered) {
			return nil, invalid("Invalid value for field 'pageToken': '%s'. ", text)
		}
	}
	page.Items = filtered[start:min(start+size, len(filtered))]
	if start+size < len(filtered) {
		page.NextPageToken = fmt.Sprint(start + size)
	}
	return page, nil
}

var comparison = regexp.MustCompile(`^\(?([A-Za-z.]+)\s*(=| eq | ne |!=)\s*"?([^"\s]*)"?\)?$`)

// filter returns the items that match an expression: one comparison of a field with a value or, with eq and ne, with a
// regular expression.
func filter[T any](all []T, expression string) ([]T, *fault) {
	if expression == "" {
		return all, nil
	}
	parts := comparison.FindStringSubmatch(expression)
	if parts == nil {
		return nil, invalid("Invalid value for field 'filter': '%s'. Invalid list filter expression.", expression)
	}
	operator, pattern := strings.TrimSpace(parts[2]), parts[3]
	if operator == "=" || operator == "!=" {
		pattern = regexp.QuoteMeta(pattern)
	}
	matches, err := regexp.Compile("^(?:" + pattern + ")$")
	if err != nil {
		return nil, invalid("Invalid value for field 'filter': '%s'. Invalid list filter expression.", expression)
	}
	var found []T
	for _, item := range all {
		text, err := json.Marshal(item)
		if err != nil {
			return nil, faultf(http.StatusInternalServerError, "backendError", "%v", err)
		}
		var fields map[string]any
		if err := json.Unmarshal(text, &fields); err != nil {
			return nil, faultf(http.StatusInternalServerError, "backendError", "%v", err)
		}
		var value any = fields
		for _, name := range strings.Split(parts[1], ".") {
			below, _ := value.(map[string]any)
			value = below[name]
		}
		text1, _ := value.(string)
		if matches.MatchString(text1) == (operator == "=" || operator == "eq") {
			found = append(found, item)
		}
	}
	return found, nil
}

type zoneResource struct {
	Kind     string `json:"kind"`
	ID       uint64 `json:"id,string"`
	Name     string `json:"name"`
	Region   string `json:"region"`
	Status   string `json:"status"`
	SelfLink string `json:"selfLink"`
}

func (c *Cloud) listZones(r *request) (any, *fault) {
	var all []zoneResource
	for i, name := range c.Zones() {
		all = append(all, zoneResource{"compute#zone", uint64(2000 + i), name, c.url("regions/" + c.options.Region), "UP", c.url("zones/" + name)})
	}
	return listOf(c, r, "compute#zoneList", all)
}
