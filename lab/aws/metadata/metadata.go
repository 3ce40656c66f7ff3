// Package metadata is a fake of EC2's instance metadata service, version 2: each request needs a token.
package metadata

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/berth-csi/berth/lab/aws/ec2"
	"github.com/berth-csi/berth/lab/aws/iam"
)

// State is the state of the service.
type State string

const (
	// Up is a service that works.
	Up State = "up"
	// Down breaks each connection.
	Down State = "down"
	// Hung does not respond until the client gives up.
	Hung State = "hung"
	// Disabled is the service of an instance whose metadata options disable it.
	Disabled State = "disabled"
)

// Place is where an instance is.
type Place struct{ Partition, Region, ZoneID, Account string }

// Service is the metadata of one instance. Use New.
type Service struct {
	tree map[string]string // by path below /latest/

	mu     sync.Mutex
	state  State
	asked  []string
	tokens map[string]time.Time // when they expire
}

// New returns the metadata of an instance, which is up.
func New(i ec2.Instance, place Place) *Service {
	s := &Service{state: Up, tokens: map[string]time.Time{}}
	interfaces := "meta-data/network/interfaces/macs/" + i.MAC + "/"
	s.tree = map[string]string{
		"meta-data/ami-id": "ami-0123456789abcdef0", "meta-data/instance-id": i.ID, "meta-data/instance-type": i.Type, "meta-data/mac": i.MAC,
		"meta-data/hostname": i.PrivateDNSName, "meta-data/local-hostname": i.PrivateDNSName, "meta-data/local-ipv4": i.PrivateIP,
		"meta-data/placement/region": place.Region, "meta-data/placement/availability-zone": i.Zone, "meta-data/placement/availability-zone-id": place.ZoneID,
		"meta-data/block-device-mapping/ami": "/dev/xvda", "meta-data/block-device-mapping/root": "/dev/xvda",
		"meta-data/services/domain": "amazonaws.com", "meta-data/services/partition": place.Partition,
		interfaces + "device-number": "0", interfaces + "mac": i.MAC, interfaces + "local-ipv4s": i.PrivateIP,
	}
	document, _ := json.MarshalIndent(map[string]any{ // of strings only
		"accountId": place.Account, "architecture": "x86_64", "availabilityZone": i.Zone, "imageId": s.tree["meta-data/ami-id"], "instanceId": i.ID,
		"instanceType": i.Type, "pendingTime": time.Now().UTC().Format(time.RFC3339), "privateIp": i.PrivateIP, "region": place.Region, "version": "2017-09-30",
	}, "", "  ")
	s.tree["dynamic/instance-identity/document"] = string(document)
	return s
}

// SetRole gives the instance a role, with credentials of one of the role's sessions.
func (s *Service) SetRole(name string, session iam.Credentials) {
	document, _ := json.MarshalIndent(map[string]any{ // of strings only
		"Code": "Success", "Type": "AWS-HMAC", "LastUpdated": time.Now().UTC().Format(time.RFC3339), "Expiration": session.Expires.UTC().Format(time.RFC3339),
		"AccessKeyId": session.AccessKeyID, "SecretAccessKey": session.SecretAccessKey, "Token": session.SessionToken,
	}, "", "  ")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tree["meta-data/iam/security-credentials/"+name] = string(document)
}

// SetState sets the state.
func (s *Service) SetState(state State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = state
}

// Asked returns the paths that were read so far.
func (s *Service) Asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	state := s.state
	s.asked = append(s.asked, r.Method+" "+r.URL.Path)
	s.mu.Unlock()
	switch state {
	case Down:
		panic(http.ErrAbortHandler)
	case Hung:
		<-r.Context().Done()
		return
	case Disabled:
		http.Error(w, "403 - Forbidden", http.StatusForbidden)
		return
	}
	w.Header().Set("Server", "EC2ws")
	switch {
	case r.URL.Path == "/latest/api/token":
		s.token(w, r)
	case r.Method != http.MethodGet:
		http.Error(w, "405 - Method Not Allowed", http.StatusMethodNotAllowed)
	case !s.valid(r.Header.Get("X-Aws-Ec2-Metadata-Token")):
		http.Error(w, "401 - Unauthorized", http.StatusUnauthorized)
	default:
		text, ok := s.read(strings.TrimPrefix(r.URL.Path, "/latest/"))
		if !ok {
			http.Error(w, "404 - Not Found", http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write([]byte(text)) // the client may be gone
	}
}

// token gives a token for as long as the client asks for.
func (s *Service) token(w http.ResponseWriter, r *http.Request) {
	const header = "X-Aws-Ec2-Metadata-Token-Ttl-Seconds"
	seconds, err := strconv.Atoi(r.Header.Get(header))
	switch {
	case r.Method != http.MethodPut:
		http.Error(w, "405 - Method Not Allowed", http.StatusMethodNotAllowed)
		return
	case err != nil || seconds < 1 || seconds > 21600 || r.Header.Get("X-Forwarded-For") != "":
		http.Error(w, "400 - Bad Request", http.StatusBadRequest)
		return
	}
	token := rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens[token] = time.Now().Add(time.Duration(seconds) * time.Second)
	w.Header().Set(header, strconv.Itoa(seconds))
	fmt.Fprint(w, token)
}

func (s *Service) valid(token string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	expires, ok := s.tokens[token]
	return ok && time.Now().Before(expires)
}

// read returns a value, or the names in a folder. Names of folders end with a slash.
func (s *Service) read(path string) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path = strings.TrimSuffix(path, "/") // mount.efs adds it to the identity document's path
	if text, ok := s.tree[path]; ok {
		return text, text != ""
	}
	folder := path + "/"
	var names []string
	for _, key := range slices.Sorted(maps.Keys(s.tree)) {
		rest, ok := strings.CutPrefix(key, folder)
		if !ok {
			continue
		}
		if name, _, deeper := strings.Cut(rest, "/"); deeper {
			rest = name + "/"
		}
		names = append(names, rest)
	}
	return strings.Join(slices.Compact(names), "\n"), len(names) > 0
}
