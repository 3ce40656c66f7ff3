// Package ec2 is a fake EC2, as far as block storage needs it. It speaks the query protocol of the API version
// 2016-11-15. Its limits and error codes come from the documentation and from the cases that the EBS CSI driver
// distinguishes.
package ec2

import (
	"crypto/rand"
	"encoding/xml"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/berth-csi/berth/lab/aws/gateway"
)

const namespace = "http://ec2.amazonaws.com/doc/2016-11-15/"

// Zone is an availability zone.
type Zone struct {
	Name, ID string
	// Local says that it is a Local Zone, which the account has opted in to.
	Local bool
}

// Disks keeps the content of volumes, and gives instances devices. Its methods are called one at a time. If one fails,
// the request fails with InternalError, except that a volume whose attachment fails stays in the state "attaching".
type Disks interface {
	// Create makes a disk that is empty, or has the content of the volume's SnapshotID or SourceID.
	Create(Volume) error
	// Resize makes the disk as large as the volume is now.
	Resize(Volume) error
	// Snapshot keeps the content of the disk of the snapshot's volume.
	Snapshot(Snapshot) error
	// Delete removes the content of a volume or a snapshot.
	Delete(id string) error
	// Attach gives the instance the device.
	Attach(Volume, Attachment) error
	// Detach takes the device from the instance.
	Detach(Volume, Attachment) error
}

// Options are the settings of a Service.
type Options struct {
	Region  string
	Account string
	// Zones has at least one zone.
	Zones []Zone
	// Settle is how long volumes, snapshots, attachments and modifications are in their first state. If it is zero, only the response to
	// the request that begins such a state shows it.
	Settle time.Duration
	// Disks may be nil.
	Disks Disks
}

// Service is the volumes, snapshots, instances, subnets and security groups of an account in a region. Use New.
type Service struct {
	options Options

	mu            sync.Mutex
	disksMu       sync.Mutex // one call at a time, without blocking other requests
	volumes       map[string]*Volume
	snapshots     map[string]*Snapshot
	instances     map[string]*Instance
	types         map[string]InstanceType
	network       network
	modifications []*modification
	tokens        map[string]token
	pages         map[string]page
}

// token records the request that used a client token.
type token struct{ parameters, volumeID string }

// page is where the next page of a list begins.
type page struct {
	action string
	after  string // the ID of the last item
}

// New returns a service without any volumes.
func New(options Options) *Service {
	s := &Service{
		options: options,
		volumes: map[string]*Volume{}, snapshots: map[string]*Snapshot{}, instances: map[string]*Instance{},
		types: map[string]InstanceType{}, tokens: map[string]token{}, pages: map[string]page{},
		network: network{subnets: map[string]*Subnet{}, groups: map[string]*SecurityGroup{}, interfaces: map[string]*netInterface{}},
	}
	for _, t := range defaultTypes {
		s.types[t.Name] = t
	}
	return s
}

// Gateway returns the service for the gateway.
func (s *Service) Gateway() gateway.Service {
	return gateway.Service{
		Name: "ec2",
		Read: gateway.ReadForm,
		Handlers: map[string]gateway.Handler{
			"CreateVolume": s.createVolume, "CopyVolumes": s.copyVolumes, "DeleteVolume": s.deleteVolume,
			"DescribeVolumes": s.describeVolumes, "DescribeVolumeStatus": s.describeVolumeStatus,
			"ModifyVolume": s.modifyVolume, "DescribeVolumesModifications": s.describeModifications,
			"AttachVolume": s.attachVolume, "DetachVolume": s.detachVolume,
			"CreateSnapshot": s.createSnapshot, "DeleteSnapshot": s.deleteSnapshot, "DescribeSnapshots": s.describeSnapshots,
			"CreateTags": s.createTags, "DeleteTags": s.deleteTags, "DescribeTags": s.describeTags,
			"DescribeInstances": s.describeInstances, "DescribeInstanceTypes": s.describeInstanceTypes,
			"DescribeAvailabilityZones": s.describeZones,
			"DescribeSubnets":           s.describeSubnets, "DescribeSecurityGroups": s.describeSecurityGroups,
			"CreateSecurityGroup": s.createSecurityGroup, "DeleteSecurityGroup": s.deleteSecurityGroup, "AuthorizeSecurityGroupIngress": s.authorizeIngress,
		},
		Also:  alsoNeeded,
		Write: write,
		Fail:  fail,
		Refusals: gateway.Refusals{
			Unsigned:    gateway.Error{Status: http.StatusBadRequest, Code: "MissingParameter", Message: "The request must contain the parameter AWSAccessKeyId"},
			Unknown:     gateway.Error{Status: http.StatusUnauthorized, Code: "AuthFailure", Message: "AWS was not able to validate the provided access credentials"},
			Signature:   gateway.Error{Status: http.StatusForbidden, Code: "SignatureDoesNotMatch", Message: "The request signature we calculated does not match the signature you provided."},
			Expired:     gateway.Error{Status: http.StatusBadRequest, Code: "RequestExpired", Message: "Request has expired."},
			Throttled:   gateway.Error{Status: http.StatusServiceUnavailable, Code: "RequestLimitExceeded", Message: "Request limit exceeded."},
			Unavailable: gateway.Error{Status: http.StatusServiceUnavailable, Code: "Unavailable", Message: "The service is unavailable. Please try again shortly."},
			Denied: gateway.Error{Status: http.StatusForbidden, Code: "UnauthorizedOperation",
				Message: "You are not authorized to perform this operation. User: %s is not authorized to perform: %s because no identity-based policy allows the action"},
		},
	}
}

// alsoNeeded returns CreateTags for requests that create a resource with tags.
func alsoNeeded(r *gateway.Request) []string {
	if r.Action == "CreateTags" || r.Parameters["TagSpecification.1.Tag.1.Key"] == "" {
		return nil
	}
	return []string{"CreateTags"}
}

// reply is in every response.
type reply struct {
	RequestID string `xml:"requestId"`
}

func (r *reply) identify(id string) { r.RequestID = id }

func write(w http.ResponseWriter, r *gateway.Request, response any) {
	response.(interface{ identify(string) }).identify(r.ID)
	answer(w, r, http.StatusOK, xml.StartElement{Name: xml.Name{Local: r.Action + "Response"}, Attr: []xml.Attr{{Name: xml.Name{Local: "xmlns"}, Value: namespace}}}, response)
}

func fail(w http.ResponseWriter, r *gateway.Request, err *gateway.Error) {
	var body struct {
		Code      string `xml:"Errors>Error>Code"`
		Message   string `xml:"Errors>Error>Message"`
		RequestID string
	}
	body.Code, body.Message, body.RequestID = err.Code, err.Message, r.ID
	answer(w, r, err.Status, xml.StartElement{Name: xml.Name{Local: "Response"}}, body)
}

func answer(w http.ResponseWriter, r *gateway.Request, status int, start xml.StartElement, body any) {
	w.Header().Set("Content-Type", "text/xml;charset=UTF-8")
	w.Header().Set("X-Amzn-Requestid", r.ID)
	w.WriteHeader(status)
	_, _ = w.Write([]byte(xml.Header))
	_ = xml.NewEncoder(w).EncodeElement(body, start) // the client may be gone
}

// done is the response of actions without results.
type done struct {
	reply
	Return bool `xml:"return"`
}

// list returns the values of a parameter's list, such as VolumeId.1, VolumeId.2.
func list(r *gateway.Request, name string) []string {
	var values []string
	for i := 1; ; i++ {
		value, ok := r.Parameters[name+"."+strconv.Itoa(i)]
		if !ok {
			return values
		}
		values = append(values, value)
	}
}

// number returns the value of a number, or 0.
func number(r *gateway.Request, name string) (int32, *gateway.Error) {
	text := r.Parameters[name]
	if text == "" {
		return 0, nil
	}
	value, err := strconv.ParseInt(text, 10, 32)
	if err != nil || value < 0 {
		return 0, gateway.Errorf("InvalidParameterValue", "Invalid value '%s' for %s. Value must be a number.", text, name)
	}
	return int32(value), nil
}

// dryRun returns the error that a dry run ends with, or nil if the request is no dry run. A caller first checks everything else.
func dryRun(r *gateway.Request) *gateway.Error {
	if r.Parameters["DryRun"] != "true" {
		return nil
	}
	return &gateway.Error{Status: http.StatusPreconditionFailed, Code: "DryRunOperation", Message: "Request would have succeeded, but DryRun flag is set."}
}

// filters is the names and values that items of a list must have.
type filters map[string][]string

// readFilters returns the filters of a request. An unknown filter is an error.
func readFilters(r *gateway.Request, known ...string) (filters, *gateway.Error) {
	found := filters{}
	for i := 1; ; i++ {
		prefix := "Filter." + strconv.Itoa(i)
		name, ok := r.Parameters[prefix+".Name"]
		if !ok {
			return found, nil
		}
		if !slices.Contains(known, name) && (!strings.HasPrefix(name, "tag:") || !slices.Contains(known, "tag-key")) {
			return nil, gateway.Errorf("InvalidParameterValue", "The filter '%s' is invalid", name)
		}
		found[name] = append(found[name], list(r, prefix+".Value")...)
	}
}

// match reports whether an item with attributes and tags passes. An attribute may have several values.
func (f filters) match(attributes map[string][]string, tags Tags) bool {
	for name, wanted := range f {
		values := attributes[name]
		switch key, isTag := strings.CutPrefix(name, "tag:"); {
		case isTag:
			value, ok := tags[key]
			if !ok {
				return false
			}
			values = []string{value}
		case name == "tag-key":
			for key := range tags {
				values = append(values, key)
			}
		}
		if !slices.ContainsFunc(values, func(value string) bool {
			return slices.ContainsFunc(wanted, func(pattern string) bool { return wildcard(pattern, value) })
		}) {
			return false
		}
	}
	return true
}

// wildcard matches a pattern as EC2's filters do: * stands for any characters and ? for one.
func wildcard(pattern, text string) bool {
	switch {
	case pattern == "":
		return text == ""
	case pattern[0] == '*':
		return wildcard(pattern[1:], text) || text != "" && wildcard(pattern, text[1:])
	case text == "":
		return false
	}
	return (pattern[0] == '?' || pattern[0] == text[0]) && wildcard(pattern[1:], text[1:])
}

// paginate returns a page of sorted IDs and the token of the next. Pages have between minimum and 1000 items.
func (s *Service) paginate(r *gateway.Request, ids []string, minimum int32) ([]string, string, *gateway.Error) {
	size, err := number(r, "MaxResults")
	if err != nil {
		return nil, "", err
	}
	if size != 0 && (size < minimum || size > 1000) {
		return nil, "", gateway.Errorf("InvalidParameterValue", "Value ( %d ) for parameter maxResults is invalid. Expecting a value between %d and 1000.", size, minimum)
	}
	sort.Strings(ids)
	if text := r.Parameters["NextToken"]; text != "" {
		from, ok := s.pages[text]
		if !ok || from.action != r.Action {
			return nil, "", gateway.Errorf("InvalidParameterValue", "Invalid value '%s' for NextToken.", text)
		}
		at, found := slices.BinarySearch(ids, from.after)
		if found {
			at++
		}
		ids = ids[at:]
	}
	if size == 0 {
		size = 1000
	}
	if len(ids) <= int(size) {
		return ids, "", nil
	}
	next := rand.Text()
	s.pages[next] = page{action: r.Action, after: ids[size-1]}
	return ids[:size], next, nil
}

// selectIDs returns the IDs that a request names, or all existing IDs if it names none. An ID that does not exist is an error.
func selectIDs[T any](r *gateway.Request, parameter, prefix, code, noun string, all map[string]T) ([]string, *gateway.Error) {
	ids := list(r, parameter)
	if len(ids) == 0 {
		for id := range all {
			ids = append(ids, id)
		}
		return ids, nil
	}
	if r.Parameters["MaxResults"] != "" && r.Parameters["MaxResults"] != "0" {
		return nil, gateway.Errorf("InvalidParameterCombination", "The parameter %ss cannot be used with the parameter maxResults", parameter)
	}
	var missing []string
	for _, id := range ids {
		if !strings.HasPrefix(id, prefix) {
			return nil, gateway.Errorf("InvalidParameterValue", "Value (%s) for parameter %s is invalid. Expected: '%s...'.", id, parameter, prefix)
		}
		if _, ok := all[id]; !ok {
			missing = append(missing, id)
		}
	}
	switch len(missing) {
	case 0:
		return slices.Compact(slices.Sorted(slices.Values(ids))), nil
	case 1:
		return nil, gateway.Errorf(code, "The %s '%s' does not exist.", noun, missing[0])
	}
	return nil, gateway.Errorf(code, "The %ss '%s' do not exist.", noun, strings.Join(missing, ", "))
}

// disks calls Disks unless it is nil. The caller does not hold the lock, so that the cloud answers in the meantime.
func (s *Service) disks(call func(Disks) error) *gateway.Error {
	if s.options.Disks == nil {
		return nil
	}
	s.disksMu.Lock()
	defer s.disksMu.Unlock()
	if err := call(s.options.Disks); err != nil {
		return &gateway.Error{Status: http.StatusInternalServerError, Code: "InternalError", Message: "An internal error has occurred: " + err.Error()}
	}
	return nil
}

func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
