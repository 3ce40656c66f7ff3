package openstack

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
)

// The cloud's user, and the project where clouds.yaml leads to.
const (
	user, password, defaultProject = "berth", "secret", "harbour"
	// domain is the name of the only domain. Its ID is domainID.
	domain, domainID = "Default", "default"
	// region has the services. The catalog lists otherRegion first, where nothing answers.
	region, otherRegion = "sea-1", "land-1"
)

// tokenLifetime is how long tokens are valid, unless the cloud revokes them.
const tokenLifetime = time.Hour

// keystone has the cloud's projects and who may log in to them.
type keystone struct {
	userID      string
	projects    []*project
	credentials map[string]credential // application credentials by ID
	tokens      map[string]token
}

type project struct{ id, name string }

type credential struct {
	secret  string
	project *project
}

type token struct {
	project *project // nil without a scope
	expires time.Time
}

func newKeystone() keystone {
	return keystone{
		userID: newID(), projects: []*project{{id: newID(), name: defaultProject}},
		credentials: map[string]credential{}, tokens: map[string]token{},
	}
}

// newID returns a new ID as Keystone makes them.
func newID() string {
	random := make([]byte, 16)
	_, _ = rand.Read(random) // never fails
	return hex.EncodeToString(random)
}

// newUUID returns a new ID as the other services make them.
func newUUID() string { return string(uuid.NewUUID()) }

// formatUUID formats 16 bytes as a UUID of version 4.
func formatUUID(of []byte) string {
	of[6], of[8] = of[6]&0x0f|0x40, of[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", of[:4], of[4:6], of[6:8], of[8:10], of[10:])
}

// AddProject adds a project, which the user may log in to.
func (c *Cloud) AddProject(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keystone.projects = append(c.keystone.projects, &project{id: newID(), name: name})
}

// ExpireTokens expires all tokens. Who may log in gets a new one.
func (c *Cloud) ExpireTokens() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, t := range c.keystone.tokens {
		t.expires = time.Now()
		c.keystone.tokens[id] = t
	}
}

// authenticate returns the project of a token.
func (k *keystone) authenticate(id string) (*project, error) {
	t, known := k.tokens[id]
	if !known || t.project == nil || !time.Now().Before(t.expires) {
		return nil, unauthorized
	}
	return t.project, nil
}

// find returns a project by its ID or name, or nil.
func (k *keystone) find(id, name string) *project {
	for _, p := range k.projects {
		if p.id == id || id == "" && p.name == name {
			return p
		}
	}
	return nil
}

func (c *Cloud) keystoneService() service {
	return service{name: Keystone, prefix: "/identity", routes: []route{
		{"GET /{$}", "", c.identityVersions},
		{"GET /v3/{$}", "", c.identityVersion},
		{"POST /v3/auth/tokens", "", c.login},
		{"GET /v3/auth/tokens", "identity:validate_token", c.validateToken},
		{"GET /v3/auth/projects", "identity:get_auth_projects", c.listProjects},
	}}
}

func (c *Cloud) describeIdentity() map[string]any {
	return map[string]any{"id": "v3.14", "status": "stable", "updated": "2020-04-07T00:00:00Z",
		"links": []any{map[string]any{"rel": "self", "href": c.url + "/identity/v3/"}}}
}

func (c *Cloud) identityVersions(*request) (reply, error) {
	return reply{code: http.StatusMultipleChoices, body: map[string]any{"versions": map[string]any{"values": []any{c.describeIdentity()}}}}, nil
}

func (c *Cloud) identityVersion(*request) (reply, error) {
	return ok(map[string]any{"version": c.describeIdentity()})
}

// inDomain is a user or a project in the request for a token.
type inDomain struct {
	ID, Name string
	Domain   *struct{ ID, Name string }
}

// valid reports whether the right domain is given, which only a name requires.
func (d inDomain) valid() bool {
	return d.ID != "" || d.Domain != nil && (d.Domain.ID == domainID || d.Domain.Name == domain)
}

// login gives a token for a password or for an application credential.
func (c *Cloud) login(r *request) (reply, error) {
	var asked struct {
		Auth struct {
			Identity struct {
				Methods  []string
				Password struct {
					User struct {
						inDomain
						Password string
					}
				}
				Credential struct{ ID, Secret string } `json:"application_credential"`
			}
			Scope *struct{ Project *inDomain }
		}
	}
	if err := json.Unmarshal(r.body, &asked); err != nil {
		return reply{}, badRequest("%v", err)
	}
	if len(asked.Auth.Identity.Methods) != 1 {
		return reply{}, badRequest("Expecting to find exactly one of the methods that this cloud knows: password, application_credential.")
	}
	var in *project
	method := asked.Auth.Identity.Methods[0]
	switch method {
	case "password":
		u := asked.Auth.Identity.Password.User
		if !u.valid() || u.Password != password || u.ID != c.keystone.userID && (u.ID != "" || u.Name != user) {
			return reply{}, unauthorized
		}
		if scope := asked.Auth.Scope; scope != nil && scope.Project != nil {
			if in = c.keystone.find(scope.Project.ID, scope.Project.Name); in == nil || !scope.Project.valid() {
				return reply{}, unauthorized
			}
		}
	case "application_credential":
		found, known := c.keystone.credentials[asked.Auth.Identity.Credential.ID]
		if !known || found.secret != asked.Auth.Identity.Credential.Secret {
			return reply{}, unauthorized
		}
		if asked.Auth.Scope != nil {
			return reply{}, failure{http.StatusUnauthorized, "Application credentials cannot request a scope."}
		}
		in = found.project
	default:
		return reply{}, unauthorized
	}
	id, t := "gAAAAA"+newID(), token{project: in, expires: time.Now().Add(tokenLifetime)}
	c.keystone.tokens[id] = t
	return reply{code: http.StatusCreated, header: map[string]string{"X-Subject-Token": id},
		body: map[string]any{"token": c.describeToken(t, method)}}, nil
}

func (c *Cloud) describeToken(t token, method string) map[string]any {
	inDefault := map[string]any{"id": domainID, "name": domain}
	content := map[string]any{
		"methods": []string{method}, "issued_at": t.expires.Add(-tokenLifetime).UTC().Format(time.RFC3339), "expires_at": t.expires.UTC().Format(time.RFC3339),
		"user":      map[string]any{"id": c.keystone.userID, "name": user, "domain": inDefault},
		"audit_ids": []string{newID()},
	}
	if t.project != nil { // a token without a scope has no catalog either
		content["project"] = map[string]any{"id": t.project.id, "name": t.project.name, "domain": inDefault}
		content["roles"] = []any{map[string]any{"id": "member", "name": "member"}}
		content["catalog"] = c.catalog(t.project)
	}
	return content
}

// catalog lists the services with an endpoint for each region and interface.
func (c *Cloud) catalog(of *project) []any {
	var catalog []any
	add := func(kind, name, path string) {
		var endpoints []any
		for _, place := range []struct{ region, prefix string }{{otherRegion, "/" + otherRegion}, {region, ""}} {
			for _, side := range []string{"admin", "internal", "public"} {
				endpoints = append(endpoints, map[string]any{"id": newID(), "interface": side, "region": place.region, "region_id": place.region,
					"url": c.url + place.prefix + path})
			}
		}
		catalog = append(catalog, map[string]any{"type": kind, "name": name, "id": newID(), "endpoints": endpoints})
	}
	add("identity", "keystone", "/identity/v3")
	if c.manila != Absent {
		add("sharev2", "manilav2", "/share/v2")
	}
	add("volumev3", "cinderv3", "/volume/v3/"+of.id)
	add("compute", "nova", "/compute/v2.1")
	return catalog
}

func (c *Cloud) validateToken(r *request) (reply, error) {
	id := r.Header.Get("X-Subject-Token")
	t, known := c.keystone.tokens[id]
	if !known || !time.Now().Before(t.expires) {
		return reply{}, notFound("Could not find token: %s.", id)
	}
	return reply{code: http.StatusOK, header: map[string]string{"X-Subject-Token": id}, body: map[string]any{"token": c.describeToken(t, "password")}}, nil
}

func (c *Cloud) listProjects(*request) (reply, error) {
	var list []any
	for _, p := range c.keystone.projects {
		list = append(list, map[string]any{"id": p.id, "name": p.name, "domain_id": domainID, "enabled": true})
	}
	return ok(map[string]any{"projects": list})
}

// Login holds a program's credentials for the cloud: a user with a password and a project, or an application
// credential, which has a project of its own.
type Login struct {
	URL                         string // of Keystone
	User, Password, Project     string
	CredentialID, CredentialKey string
	Region                      string
	CAFile                      string // path of the cloud's CA, where the program sees it; empty for none
}

// Login returns a login with the user's password.
func (c *Cloud) Login() Login {
	return Login{URL: c.url + "/identity/v3", User: user, Password: password, Project: defaultProject, Region: region}
}

// LoginWithCredential returns a login with a new application credential for a project of the cloud; "" is Login's
// project.
func (c *Cloud) LoginWithCredential(project string) Login {
	c.mu.Lock()
	defer c.mu.Unlock()
	login := Login{URL: c.url + "/identity/v3", CredentialID: newID(), CredentialKey: newID(), Region: region}
	in := c.keystone.find("", cmp.Or(project, defaultProject))
	if in == nil {
		panic(fmt.Sprintf("the OpenStack cloud has no project %q", project))
	}
	c.keystone.credentials[login.CredentialID] = credential{secret: login.CredentialKey, project: in}
	return login
}

// CloudsYAML returns clouds.yaml with the cloud "openstack", as OpenShift's installer writes it.
func (l Login) CloudsYAML() []byte {
	text := fmt.Appendf(nil, "clouds:\n  openstack:\n")
	if l.CredentialID != "" {
		text = fmt.Appendf(text, `    auth_type: v3applicationcredential
    auth:
      auth_url: %s
      application_credential_id: %s
      application_credential_secret: %s
`, l.URL, l.CredentialID, l.CredentialKey)
	} else {
		text = fmt.Appendf(text, `    auth:
      auth_url: %s
      username: %s
      password: %s
      project_name: %s
      user_domain_name: %s
      project_domain_name: %[5]s
`, l.URL, l.User, l.Password, l.Project, domain)
	}
	if l.CAFile != "" {
		text = fmt.Appendf(text, "    cacert: %s\n", l.CAFile)
	}
	return fmt.Appendf(text, "    region_name: %s\n    identity_api_version: \"3\"\n    verify: true\n", l.Region)
}

// CloudConf returns the section of cloud.conf with the Cinder driver's login.
func (l Login) CloudConf() []byte {
	text := fmt.Appendf(nil, "[Global]\nauth-url = %s\nregion = %s\n", l.URL, l.Region)
	if l.CAFile != "" {
		text = fmt.Appendf(text, "ca-file = %s\n", l.CAFile)
	}
	if l.CredentialID != "" {
		return fmt.Appendf(text, "application-credential-id = %s\napplication-credential-secret = %s\n", l.CredentialID, l.CredentialKey)
	}
	return fmt.Appendf(text, "username = %s\npassword = %s\ntenant-name = %s\nuser-domain-name = %s\ntenant-domain-name = %[4]s\n",
		l.User, l.Password, l.Project, domain)
}

// ManilaSecrets returns the secrets that the Manila driver takes in each CSI request, without clouds.yaml.
func (l Login) ManilaSecrets() map[string]string {
	secrets := map[string]string{"os-authURL": l.URL, "os-region": l.Region}
	if l.CAFile != "" {
		secrets["os-certAuthorityPath"] = l.CAFile
	}
	if l.CredentialID != "" {
		secrets["os-applicationCredentialID"], secrets["os-applicationCredentialSecret"] = l.CredentialID, l.CredentialKey
		return secrets
	}
	secrets["os-userName"], secrets["os-password"], secrets["os-projectName"] = l.User, l.Password, l.Project
	secrets["os-userDomainName"], secrets["os-projectDomainName"] = domain, domain
	return secrets
}

// InstallerCA is where OpenShift mounts the CAs of clouds.
const InstallerCA = "/etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem"

// CloudsYAML returns clouds.yaml, with the cloud "openstack" and its CA where OpenShift mounts it.
func (c *Cloud) CloudsYAML() []byte {
	login := c.Login()
	login.CAFile = InstallerCA
	return login.CloudsYAML()
}

// WrongCloudsYAML returns the same with a wrong password.
func (c *Cloud) WrongCloudsYAML() []byte {
	login := c.Login()
	login.CAFile, login.Password = InstallerCA, "guessed"
	return login.CloudsYAML()
}
